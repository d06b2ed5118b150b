"""What can be set of a gateway on a host of its own: the groups of ``gateway.yaml``.

What it shares with a server's gateway is declared with that one. Standard library only, as
``settings``.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.config.carrying import RouterSettings
from llmgw.config.declaring import Address, Seconds, setting
from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.config.paying import AccountingSettings
from llmgw.config.settings import AuthSettings, GatewaySettings, LogSettings, TlsFiles


@dataclass(frozen=True, slots=True)
class GatewayHostSettings:
    """All settings of ``llmgw gateway``."""

    name: str = setting(
        "",
        "This gateway's name, its certificate's without `gateway-`; unset means: the hostname.",
    )
    server: str = setting(
        "",
        "Agent port of the control plane, `host:7443`; plaintext only when written `http://…`.",
    )
    servers: tuple[str, ...] = setting((), "Further control planes, tried in this order.")
    tls: TlsFiles | None = setting(None, "This gateway's certificates.")
    reconnect_base: Seconds = setting(
        0.5, "First wait after a lost connection; doubles, with jitter.", at_least=0.01
    )
    reconnect_max: Seconds = setting(
        10.0,
        "The longest such wait. A control plane that has just started waits a minute before "
        "anything counts as idle, and has to hear of this gateway's requests before.",
        at_least=0.01,
        at_most=30,
    )
    report_interval: Seconds = setting(
        1.0,
        "Time between two reports of what is under way and was used; the control plane counts a "
        "gateway as silent after 5 s.",
        at_least=0.1,
        at_most=2,
    )
    listen: Address = setting(":8080", "Where clients connect; plain HTTP.")
    admin_listen: Address = setting(
        "127.0.0.1:9090", "Where `/health`, `/ready` and `/metrics` are; keep it on loopback."
    )
    metrics_listen: Address | None = setting(
        None, "A port that shows `/metrics` and nothing else; port 0 is any free one."
    )
    state_dir: str = setting(
        "/var/lib/llmgw-gateway",
        "Folder of the last table of routes, from which requests are served when no control "
        "plane answers.",
    )
    run_dir: str = setting(
        "/run/llmgw-gateway",
        "Folder for sockets and locks of the running gateway; best on a tmpfs.",
    )
    log: LogSettings = setting(LogSettings(), "The log.")
    gateway: GatewaySettings = setting(GatewaySettings(), "The processes that carry requests.")
    router: RouterSettings = setting(RouterSettings(), "How requests are carried.")
    admission: AdmissionSettings = setting(AdmissionSettings(), "Who goes first.")
    on_demand: OnDemandSettings = setting(OnDemandSettings(), "Models loaded when asked for.")
    auth: AuthSettings = setting(
        AuthSettings(), "The servers' store, where keys are asked for; as theirs."
    )
    accounting: AccountingSettings = setting(AccountingSettings(), "What is held of budgets.")
