"""The last steps of founding: settings, unit, and a service that answers."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.errors import DeadlinePassed, Internal
from llmgw.kit import addresses
from llmgw.kit.addresses import Address
from llmgw.rpc import keyfiles
from llmgw.serve import unit_files
from llmgw.serve.founding.ground import Ground, Step, ok
from llmgw.serve.founding.places import UNIT, USER, Places

ANSWER_S = 60.0
_POLL_S = 1.0
_JOURNAL_LINES = 30
_HEAD = "# Written once by llmgw server init; from now on this file is yours.\n"


def settings(ground: Ground) -> Step:
    """A first settings file; one that is there is checked and never changed."""
    place = ground.places.settings
    if place.exists() and not _is_half_done(ground):
        ground.settings()
        return ok(f"{place} is yours and stays as it is")

    def write() -> None:
        if not place.exists():
            keyfiles.write(place, first_settings(ground.places).encode(), mode=0o640)
        ground.machine.give(place, owner="root", group=USER, mode=0o640)

    return ground.do(write, str(place))


def unit(ground: Ground) -> Step:
    """The unit of this version."""
    place, text = ground.places.unit, unit_files.text(UNIT)
    is_there = place.exists() and place.read_text() == text
    if is_there and not ground.machine.needs_reload(UNIT):
        return ok(str(place))

    def write() -> None:
        if not is_there:
            keyfiles.write(place, text.encode(), mode=0o644)
        _require(ground, "daemon-reload")

    return ground.do(write, str(place))


def running(ground: Ground) -> Step:
    """Enabled, and running with what was changed."""
    is_enabled = ground.machine.systemctl("is-enabled", "--quiet", UNIT)
    is_running = ground.is_running()
    if is_enabled and is_running and not _is_outdated(ground):
        return ok("enabled and running")

    def start() -> None:
        _require(ground, "enable", "--quiet", UNIT)
        _require(ground, "restart" if is_running else "start", UNIT)

    return ground.do(start, "restarted" if is_running else "enabled and started")


def answer(ground: Ground) -> Step:
    """Clients and operators are answered; not whether there is a model to serve."""
    if ground.is_trial and not ground.is_running():
        return ok("not asked, for it does not run yet")
    written = ground.settings()
    urls = [_health_url(written.listen), _health_url(written.admin_listen)]
    give_up_at = ground.clock.monotonic() + ANSWER_S
    while silent := [url for url in urls if not ground.machine.answers(url)]:
        if ground.clock.monotonic() >= give_up_at:
            raise DeadlinePassed(
                f"{' and '.join(silent)} did not answer within {ANSWER_S:g} s{_log_end(ground)}"
            )
        ground.machine.pause(_POLL_S)
    return ok(" and ".join(urls))


def first_settings(places: Places) -> str:
    """The settings of a control plane without models; a person goes on from here."""
    return f"""\
{_HEAD}# Look at it with: llmgw config check {places.settings}
listen: ":8080"
admin_listen: 127.0.0.1:9090
agent_listen: ":7443"
agent_tls:
  ca: {places.ca}
  cert: {places.cert}
  key: {places.key}
auth:
  store: {places.store}
control:
  enabled: true
models: []
"""


def _is_half_done(ground: Ground) -> bool:
    """Whether a run was cut off between writing our own text and giving it to the service."""
    place = ground.places.settings
    is_ours = place.read_text() == first_settings(ground.places)
    return is_ours and ground.machine.owner_of(place)[1] != USER


def _is_outdated(ground: Ground) -> bool:
    """Whether unit or certificate are newer than the process, which reads them at its start."""
    files = (ground.places.unit, ground.places.cert)
    changed_at = max(file.stat().st_mtime for file in files if file.exists())
    return changed_at > ground.machine.started_at(UNIT)


def _require(ground: Ground, *words: str) -> None:
    if not ground.machine.systemctl(*words):
        raise Internal(f"systemctl {' '.join(words)} failed{_log_end(ground)}")


def _log_end(ground: Ground) -> str:
    lines: Sequence[str] = ground.machine.journal(UNIT, lines=_JOURNAL_LINES)
    return "\n".join([f"; the end of the log of {UNIT}:", *(f"  {line}" for line in lines)])


def _health_url(listen: str) -> str:
    address = addresses.parse(listen)
    host = "127.0.0.1" if address.is_wildcard else address.host
    return f"http://{Address(host, address.port)}/health"
