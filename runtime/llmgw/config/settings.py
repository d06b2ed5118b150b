"""What can be set: one frozen group of values a section of ``server.yaml`` and ``agent.yaml``.

A field's name is its key in the file; ``config.reading`` and ``config.reference`` live from what
is declared here alone.
Every role imports this module, the gateway's workers too, so it needs the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmgw.config.carrying import RouterSettings
from llmgw.config.declaring import (
    ABOUT,
    MIB,
    About,
    Address,
    Bytes,
    Name,
    PortRange,
    Seconds,
    SecretReference,
    StoreReference,
    Url,
    required,
    sections_by_name,
    setting,
    texts_by_name,
)
from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.config.paying import AccountingSettings, PriceSettings, UsageSettings
from llmgw.config.tending import (
    DiscoverySettings,
    EnginesSettings,
    FabricAdapters,
    SupervisorSettings,
    WeightsSettings,
)
from llmgw.config.vouching import OidcSettings
from llmgw.domain.catalog import Model

# Both roles


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least serious events that are written."
    )
    format: Literal["plain", "json"] = setting(
        "plain", "`plain` for people, `json` for a log collector: one object a line."
    )


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The three files of one end of a mutual TLS connection, in PEM form."""

    ca: str = field(metadata=required("Certificate of the private CA that signed the other end."))
    cert: str = field(metadata=required("This end's own certificate."))
    key: str = field(metadata=required("The key of `cert`."))


# Server


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The processes that carry client requests."""

    workers: int = setting(
        1, "Gateway worker processes; each takes one core at full load.", at_least=1, at_most=64
    )
    drain_delay_s: Seconds = setting(
        5.0,
        "At a stop, how long `/ready` says no before the port closes, so that balancers notice.",
        at_least=0,
    )
    shutdown_grace_s: Seconds = setting(
        120.0, "At a stop, how long running requests may go on before they are cut.", at_least=0
    )


@dataclass(frozen=True, slots=True)
class BrakeSettings:
    """When nodes that are silent are not given up: because too many are, at once."""

    fraction: float = setting(
        0.3, "Share of all nodes that must fall silent together.", at_least=0.01, at_most=1
    )
    min_nodes: int = setting(3, "The least number of them.", at_least=2)
    window_s: Seconds = setting(
        60.0, "How long apart they may have spoken last to count as together.", at_least=1
    )
    max_s: Seconds = setting(
        600.0, "How long they are waited for before they are given up after all.", at_least=0
    )


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """The control plane: how it watches nodes and places replicas."""

    enabled: bool | None = setting(
        None, "Run the control plane; unset means: when any model has a profile."
    )
    interval: Seconds = setting(
        5.0, "The longest time between two passes of the reconciler.", at_least=0.1
    )
    base_backoff: Seconds = setting(
        10.0, "Wait before a model that failed to start is tried again; doubles.", at_least=0
    )
    max_backoff: Seconds = setting(600.0, "The longest such wait.", at_least=0)
    unreachable_after: Seconds = setting(
        15.0,
        "A node that is silent for this long, and for three of its own heartbeats, gets no "
        "new replica.",
        at_least=0.5,
    )
    lost_after: Seconds = setting(
        60.0, "A node that is silent for this long is lost; its replicas are replaced.", at_least=1
    )
    port_range: PortRange = setting(
        (20000, 20999), "First and last TCP port that engines on a node may be given."
    )
    settle_window: Seconds = setting(
        60.0,
        "After a start, how long nodes are awaited before anything is placed or replaced.",
        at_least=0,
    )
    expect_nodes: tuple[str, ...] = setting(
        (), "Names of nodes; once all of them have registered, settling ends."
    )
    max_unavailable: int = setting(
        1,
        "How many replicas of one model are replaced at the same time, off draining nodes and "
        "after `llmgw ctl model roll`.",
        at_least=1,
    )
    canary_s: Seconds = setting(
        60.0,
        "After `llmgw ctl model roll`: how long the first new replica serves before others follow.",
        at_least=0,
    )
    min_residency_s: Seconds = setting(
        300.0,
        "A model loaded on demand serves at least this long before it makes room for another.",
        at_least=0,
    )
    evict_idle_after_s: Seconds = setting(
        60.0,
        "A model loaded on demand makes room for another only when nobody has used it for this "
        "long.",
        at_least=60,
    )
    brake: BrakeSettings = setting(BrakeSettings(), "Many nodes silent at once.")
    hub_url: Url = setting(
        "https://huggingface.co",
        "Where sources that begin with `hf:` are looked for when a model is added; "
        "what the nodes have in `weights.hub_url`.",
    )
    hub_token: SecretReference | None = setting(
        None, "The hub's token, to look for models in repositories that are closed; only by https."
    )
    journal_bytes: Bytes = setting(
        64 * MIB,
        "What every pass saw and decided is kept in `journal` in `state_dir`, up to this size, for "
        "`llmgw replay`; 0 keeps nothing.",
        at_least=0,
    )


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """The store: who leads, what was added at run time; people and keys."""

    store: StoreReference = field(
        default="",
        repr=False,
        metadata={
            ABOUT: About(
                "Where wishes and leadership are kept: an absolute path is a SQLite file, "
                "`postgresql://USER@HOST/DATABASE` a PostgreSQL database, `@/path/to/file` a file "
                "that holds one of these; unset means: nothing is kept, this server leads alone."
            )
        },
    )
    store_connections: int = setting(
        8, "Connections to the store that this server may hold.", at_least=2, at_most=100
    )
    store_timeout_s: Seconds = setting(
        5.0, "How long one transaction of the store may take, waits included.", at_least=0.5
    )
    enabled: bool = setting(
        False,
        "Ask for a key with every request, and have pages on which people sign in; takes a store.",
    )
    cache_ttl: Seconds = setting(
        30.0,
        "How long a gateway goes on with what it knows of a key; so long a revoked one may last.",
        at_least=1,
    )
    negative_ttl: Seconds = setting(
        5.0, "How long it remembers that nobody has a key.", at_least=0.1
    )
    stale_ttl: Seconds = setting(
        86400.0,
        "How long a key that was good stays so while the store does not answer.",
        at_least=1,
    )
    public_url: Url | None = setting(
        None,
        "The address under which people reach the client port, as their browsers write it; with "
        "`https://` cookies are sent by TLS only. Unset means: as each request says.",
    )
    signup_open: bool = setting(
        True, "Anybody may ask for an account; an administrator has to approve it."
    )
    session_ttl_s: Seconds = setting(
        43200.0, "How long somebody who has signed in stays so.", at_least=60
    )
    max_attempts: int = setting(
        10, "How often a password may be tried within `attempt_window_s`.", at_least=1
    )
    attempt_window_s: Seconds = setting(
        900.0, "After this time passwords may be tried again.", at_least=1
    )
    oidc: OidcSettings | None = setting(None, "Login by a provider of OpenID Connect.")
    pricing: Mapping[str, PriceSettings] = sections_by_name(
        "What models cost, by their own names: `chat: {prompt_per_1k: 1000, completion_per_1k: "
        "3000}`, in micro-units. One that is listed without prices is free."
    )
    default_price: PriceSettings = setting(
        PriceSettings(), "What a model costs that `auth.pricing` does not list."
    )
    usage: UsageSettings = setting(UsageSettings(), "The account of what was used.")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The log of what operators did, in the store."""

    retain_days: int = setting(365, "Entries that are older go.", at_least=1)
    max_entries: int = setting(
        100_000, "How many entries are kept at most; the oldest go first.", at_least=100
    )


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """Which of several servers on one store places and stops replicas."""

    ttl_s: Seconds = setting(
        6.0, "How long a leader that was not heard of still leads.", at_least=1
    )
    every_s: Seconds = setting(
        2.0, "Time between two tries to lead, or to go on leading.", at_least=0.1
    )
    advertise: str = setting(
        "",
        "Address of the admin API that standbys name as the leader's; unset means: "
        "`admin_listen`, with this host's name where that is every address.",
    )


@dataclass(frozen=True, slots=True)
class StaticEndpoint:
    """An OpenAI-compatible server that is routed to as it is, without a control plane."""

    id: Name = field(metadata=required("Its name in logs and metrics."))
    url: Url = field(metadata=required("Where it answers, without `/v1`."))
    models: tuple[Name, ...] = field(metadata=required("Names of the models that it serves."))
    engine: Literal["", "vllm", "sglang", "llamacpp", "sim"] = setting(
        "", "What it is; unset means: found by asking it."
    )
    weight: float = setting(1.0, "Its share of the load against endpoints of 1.", at_least=0.01)
    priority: int = setting(
        0, "Higher is used first; others only when none of it can answer.", at_least=0
    )
    api_key: SecretReference = setting("", "The key that it asks for.")
    usage_injection: bool = setting(
        True, "Ask its streams for their usage; false for a server that refuses `stream_options`."
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings of ``llmgw server``, and of the server's half of ``llmgw up``."""

    listen: Address = setting(":8080", "Where clients connect; plain HTTP.")
    admin_listen: Address = setting(
        "127.0.0.1:9090", "The admin API that `llmgw ctl` uses; keep it on loopback."
    )
    metrics_listen: Address | None = setting(
        None,
        "A port that shows `/metrics` and nothing else, for a Prometheus that must not reach the "
        "admin API; port 0 is any free one.",
    )
    agent_listen: Address = setting(":7443", "Where agents connect (gRPC).")
    agent_tls: TlsFiles | Literal["insecure"] | None = setting(
        None,
        "Certificates of the agent port, or the word `insecure` for plaintext; "
        "may be left out only where `agent_listen` is a loopback address.",
    )
    state_dir: str = setting("/var/lib/llmgw", "Folder for what must outlive a restart.")
    run_dir: str = setting(
        "/run/llmgw", "Folder for sockets and locks of the running server; best on a tmpfs."
    )
    log: LogSettings = setting(LogSettings(), "The log.")
    gateway: GatewaySettings = setting(GatewaySettings(), "The processes that carry requests.")
    router: RouterSettings = setting(RouterSettings(), "How requests are carried.")
    admission: AdmissionSettings = setting(AdmissionSettings(), "Who goes first.")
    on_demand: OnDemandSettings = setting(OnDemandSettings(), "Models loaded when asked for.")
    auth: AuthSettings = setting(AuthSettings(), "The store.")
    accounting: AccountingSettings = setting(AccountingSettings(), "What is held of budgets.")
    audit: AuditSettings = setting(AuditSettings(), "The log of acts.")
    leader: LeaderSettings = setting(LeaderSettings(), "Who leads, of several servers.")
    control: ControlSettings = setting(ControlSettings(), "The control plane.")
    models: tuple[Model, ...] = setting((), "The catalog: what should run, and how.")
    endpoints: tuple[StaticEndpoint, ...] = setting(
        (), "Servers that are routed to as they are; only without a control plane."
    )

    @property
    def has_control_plane(self) -> bool:
        """Whether this server places replicas; decided by the catalog unless it is said."""
        if self.control.enabled is not None:
            return self.control.enabled
        return any(model.profiles for model in self.models)


# Agent


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of ``llmgw agent``, and of the agent's half of ``llmgw up``."""

    server: str = setting(
        "",
        "Agent port of the control plane, `host:7443`; plaintext only when written `http://…`.",
    )
    servers: tuple[str, ...] = setting((), "Further control planes, tried in this order.")
    tls: TlsFiles | None = setting(None, "This node's certificates.")
    node_id: str = setting("", "The node's name; unset means: the hostname.")
    hostname: str = setting("", "Name shown to people; unset means: the hostname.")
    mgmt_addr: str = setting(
        "",
        "Address on which engines listen; unset means: the one on the way to the control plane.",
    )
    mgmt_interface: str = setting("", "Network interface of `mgmt_addr`.")
    labels: Mapping[str, str] = texts_by_name(
        "Free words that `node_selector` of a profile can ask for."
    )
    heartbeat_interval: Seconds = setting(5.0, "Time between two heartbeats.", at_least=0.1)
    reconnect_base: Seconds = setting(
        1.0, "First wait after a lost connection; doubles, with jitter.", at_least=0.01
    )
    reconnect_max: Seconds = setting(30.0, "The longest such wait.", at_least=0.01)
    fabrics: tuple[FabricAdapters, ...] = setting(
        (), "Fast networks of this node; an adapter belongs to one of them."
    )
    discovery: DiscoverySettings = setting(DiscoverySettings(), "How hardware is found.")
    model_dirs: tuple[str, ...] = setting(
        (), "Folders with model files; `weights_dir` is always one of them."
    )
    weights_dir: str = setting(
        "/var/lib/llmgw-weights", "Folder into which model files are downloaded."
    )
    weights: WeightsSettings = setting(WeightsSettings(), "How model files are downloaded.")
    engines: EnginesSettings = setting(EnginesSettings(), "Where the engines are.")
    engines_dir: str = setting(
        "/opt/llmgw/engines",
        "Folder of engines that `llmgw engine install` has put here; one of `engines` that names "
        "its own `bin` is started from there instead.",
    )
    engine_sources: tuple[str, ...] = setting(
        ("github",),
        "Where an engine comes from that the control plane orders, tried in this order: "
        "`bundle=DIR`, `mirror=URL`, `github` or `github=URL`.",
    )
    supervisor: SupervisorSettings = setting(SupervisorSettings(), "How engines are watched.")
    port_range: PortRange | None = setting(
        None, "Ports for engines on this node; unset means: as the control plane says."
    )
    log: LogSettings = setting(LogSettings(), "The log.")
