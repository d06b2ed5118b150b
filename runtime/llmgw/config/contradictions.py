"""What settings must keep between each other, beyond what each may hold alone; pure.

Called by ``config.loading``, which leaves out what rests on a setting that could not be read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from llmgw.config.carrying import RouterSettings
from llmgw.config.entering import AdmissionSettings
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import AgentSettings, ServerSettings
from llmgw.domain import names
from llmgw.kit import addresses, units

_NO_NODE = "is no node name: letters, digits, dots and dashes, at most 63, no dash at an end"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A mistake at the first of these key paths that rests on what all of them hold."""

    paths: tuple[str, ...]
    message: str


def server(settings: ServerSettings) -> Iterator[Contradiction]:
    """Every contradiction in the settings of a server."""
    yield from _silence(settings)
    yield from _backoffs(settings)
    yield from _breaker(settings.router)
    yield from _bands(settings.admission)
    yield from _expected_nodes(settings)
    yield from _leader(settings)
    yield from _apart(settings, ("listen", "admin_listen", "agent_listen", "metrics_listen"))
    yield from _agent_port(settings)
    yield from _endpoints(settings)
    yield from _people(settings)


def agent(settings: AgentSettings) -> Iterator[Contradiction]:
    """Every contradiction in the settings of an agent; the addresses of servers apart."""
    if settings.node_id and not names.NODE_NAME.fullmatch(settings.node_id):
        yield Contradiction(("node_id",), f"{settings.node_id!r} {_NO_NODE}")
    if names.is_of_gateway(settings.node_id):
        yield Contradiction(
            ("node_id",),
            f"{settings.node_id!r} is how the certificate of a gateway is called: give the node "
            "another name",
        )
    yield from _ordered(
        "reconnect_max", settings.reconnect_max, "reconnect_base", settings.reconnect_base
    )
    for double in _doubles(fabric.name for fabric in settings.fabrics):
        yield Contradiction(("fabrics",), f"the name {double!r} is used more than once")
    for double in _doubles(hca for fabric in settings.fabrics for hca in set(fabric.hcas)):
        yield Contradiction(("fabrics",), f"the adapter {double!r} is in more than one fabric")


def gateway(settings: GatewayHostSettings) -> Iterator[Contradiction]:
    """Every contradiction in the settings of a gateway; the addresses of servers apart."""
    if settings.name and not names.is_gateway_name(settings.name):
        yield Contradiction(
            ("name",),
            f"{settings.name!r} is no name of a gateway: letters, digits, dots and dashes, "
            f"at most {63 - len(names.GATEWAY_PREFIX)}, no dash at an end",
        )
    yield from _ordered(
        "reconnect_max", settings.reconnect_max, "reconnect_base", settings.reconnect_base
    )
    yield from _breaker(settings.router)
    yield from _bands(settings.admission)
    yield from _apart(settings, ("listen", "admin_listen", "metrics_listen"))
    yield from _people(settings)


def _people(settings: ServerSettings | GatewayHostSettings) -> Iterator[Contradiction]:
    auth = settings.auth
    if auth.enabled and not auth.store:
        yield Contradiction(
            ("auth.enabled", "auth.store"), "keys are kept in a store: set auth.store too"
        )
    if auth.oidc is None:
        return
    if auth.public_url is None:
        yield Contradiction(
            ("auth.oidc", "auth.public_url"),
            "the provider sends people back to auth.public_url: set that too",
        )
    missing = [word for word in ("openid", "email") if word not in auth.oidc.scopes]
    if missing:
        yield Contradiction(("auth.oidc.scopes",), f"lacks {' and '.join(missing)}")
    issuer = urlsplit(auth.oidc.issuer)
    if issuer.scheme != "https" and not _is_loopback(issuer.hostname or ""):
        yield Contradiction(
            ("auth.oidc.issuer",),
            "is not https: whoever is on the way could sign in as anybody",
        )


def _is_loopback(host: str) -> bool:
    return addresses.Address(host=host, port=0).is_loopback


def _silence(settings: ServerSettings) -> Iterator[Contradiction]:
    control = settings.control
    if control.lost_after <= control.unreachable_after:
        yield Contradiction(
            ("control.lost_after", "control.unreachable_after"),
            f"{units.shown_seconds(control.lost_after)} is not longer than "
            f"control.unreachable_after, {units.shown_seconds(control.unreachable_after)}",
        )


def _backoffs(settings: ServerSettings) -> Iterator[Contradiction]:
    control = settings.control
    yield from _ordered(
        "control.max_backoff", control.max_backoff, "control.base_backoff", control.base_backoff
    )


def _breaker(router: RouterSettings) -> Iterator[Contradiction]:
    breaker = router.breaker
    yield from _ordered(
        "router.breaker.open_max_s", breaker.open_max_s, "router.breaker.open_s", breaker.open_s
    )


def _bands(admission: AdmissionSettings) -> Iterator[Contradiction]:
    names_of_bands = [band.name for band in admission.bands]
    for double in _doubles(names_of_bands):
        yield Contradiction(("admission.bands",), f"the name {double!r} is used more than once")
    for above, below in itertools.pairwise(admission.bands):
        if below.ceiling >= above.ceiling:
            yield Contradiction(
                ("admission.bands",),
                f"the ceiling of {below.name!r}, {below.ceiling:g}, is not lower than that of "
                f"{above.name!r}, {above.ceiling:g}",
            )
    if admission.default_band not in names_of_bands:
        yield Contradiction(
            ("admission.default_band", "admission.bands"),
            f"{admission.default_band!r} is none of {', '.join(names_of_bands) or 'no bands'}",
        )


def _expected_nodes(settings: ServerSettings) -> Iterator[Contradiction]:
    for place, name in enumerate(settings.control.expect_nodes):
        if not names.NODE_NAME.fullmatch(name):
            yield Contradiction((f"control.expect_nodes[{place}]",), f"{name!r} {_NO_NODE}")


def _leader(settings: ServerSettings) -> Iterator[Contradiction]:
    leader = settings.leader
    if leader.ttl_s < 2 * leader.every_s:
        yield Contradiction(
            ("leader.ttl_s", "leader.every_s"),
            f"{units.shown_seconds(leader.ttl_s)} is shorter than twice leader.every_s, "
            f"{units.shown_seconds(leader.every_s)}: one late answer would depose the leader",
        )


def _apart(
    settings: ServerSettings | GatewayHostSettings, keys: Sequence[str]
) -> Iterator[Contradiction]:
    """No port of these is another's."""
    ports = [key for key in keys if getattr(settings, key) is not None]
    for place, later in enumerate(ports):
        for earlier in ports[:place]:
            ours, theirs = getattr(settings, later), getattr(settings, earlier)
            if addresses.parse(ours).overlaps(addresses.parse(theirs)):
                yield Contradiction((later, earlier), f"{ours!r} is taken by {earlier}, {theirs!r}")


def _agent_port(settings: ServerSettings) -> Iterator[Contradiction]:
    is_open = not addresses.parse(settings.agent_listen).is_loopback
    if settings.has_control_plane and is_open and settings.agent_tls is None:
        yield Contradiction(
            ("agent_tls", "agent_listen"),
            f"is required, for agent_listen is {settings.agent_listen!r}: give ca, cert and key "
            "(llmgw ctl cert makes them), or the word insecure, or listen on 127.0.0.1",
        )


def _endpoints(settings: ServerSettings) -> Iterator[Contradiction]:
    if settings.endpoints and settings.has_control_plane:
        yield Contradiction(
            ("endpoints", "control.enabled"),
            "are only for a server without a control plane: remove them, "
            "or the profiles of the models, or set control.enabled to false",
        )
    for place, endpoint in enumerate(settings.endpoints):
        if not endpoint.models:
            yield Contradiction(
                (f"endpoints[{place}].models",), "is empty: name what is served there"
            )
    for double in _doubles(endpoint.id for endpoint in settings.endpoints):
        yield Contradiction(("endpoints",), f"the id {double!r} is used more than once")


def _ordered(
    longer: str, longer_s: float, shorter: str, shorter_s: float
) -> Iterator[Contradiction]:
    if longer_s < shorter_s:
        yield Contradiction(
            (longer, shorter),
            f"{units.shown_seconds(longer_s)} is shorter than {shorter}, "
            f"{units.shown_seconds(shorter_s)}",
        )


def _doubles(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]
