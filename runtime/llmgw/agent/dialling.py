"""Decides where the agent dials next and how long it waits before; pure.

On any failure the next address is tried at once, and a pause comes only when all were tried. For a
while after a served session the pauses stay short, because then the server most likely restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.config import servers
from llmgw.config.servers import ServerAddress
from llmgw.errors import Invalid, Problem, SettingsInvalid
from llmgw.kit.backoff import Backoff

HURRY_S = 15.0
"""So long after a served session the pauses stay short."""
HELD_S = 2.0
"""A session shorter than this did not serve: a server that drops everybody must not be stormed."""
_REPEAT_S = 60.0

_HURRIED = Backoff(base_s=0.25, max_s=1.0)


def addresses(entries: Sequence[str], *, has_tls: bool) -> tuple[ServerAddress, ...]:
    """The control planes in the order of trying; ``SettingsInvalid`` with everything that is wrong.

    The rules are those of ``config.servers``.
    """
    found: dict[ServerAddress, None] = {}
    problems: list[Problem] = []
    for entry in entries:
        try:
            found[servers.read(entry, has_certificates=has_tls)] = None
        except Invalid as error:
            problems.append(Problem(path="server", message=error.message))
    if not entries:
        problems.append(Problem(path="server", message="is missing: host:port of a control plane"))
    if problems:
        raise SettingsInvalid("the agent cannot dial as it is configured", problems)
    return tuple(found)


class Complaints:
    """What was last said of each address, so that the same is said again only once in a while."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._said: dict[ServerAddress, tuple[str, float]] = {}

    def is_due(self, address: ServerAddress, text: str, *, now: float) -> bool:
        """Whether this is to be said now; it counts as said."""
        last, said_at = self._said.get(address, ("", float("-inf")))
        if text == last and now - said_at < _REPEAT_S:
            return False
        self._said[address] = (text, now)
        return True

    def clear(self) -> None:
        """Somebody was reached: whatever comes next is news."""
        self._said.clear()


class Redial:
    """Remembers what was tried since the last success."""

    def __init__(self, choices: Sequence[ServerAddress], *, backoff: Backoff) -> None:
        """``choices`` is not empty; ``backoff`` counts full rounds over all of them."""
        self._choices = choices
        self._backoff = backoff
        self._index = 0
        self._tried = 0
        self._rounds = 0
        self._hurried_rounds = 0
        self._hurry_until = float("-inf")
        self._preferred: ServerAddress | None = None

    def prefer(self, address: ServerAddress) -> None:
        """Dial this one next, and at once: it is known to lead."""
        self._preferred = address

    @property
    def address(self) -> ServerAddress:
        """Where to dial now."""
        return self._choices[self._index]

    def ended(self, *, served_s: float | None, now: float, draw: float) -> float:
        """Seconds to wait before dialling ``address``, now another one if there are several.

        ``served_s`` is how long this node was registered in the session that ended, ``None`` for
        not at all; ``draw`` is uniform in [0, 1).
        """
        if served_s is not None and served_s >= HELD_S:
            self._tried = self._rounds = self._hurried_rounds = 0
            self._hurry_until = now + HURRY_S
        if self._preferred is not None:
            self._index, self._preferred = self._choices.index(self._preferred), None
            return 0.0
        self._index = (self._index + 1) % len(self._choices)
        self._tried += 1
        if self._tried < len(self._choices):
            return 0.0
        self._tried = 0
        if now < self._hurry_until:
            self._hurried_rounds += 1
            return _HURRIED.delay_s(attempt=self._hurried_rounds - 1, draw=draw)
        self._rounds += 1
        return self._backoff.delay_s(attempt=self._rounds - 1, draw=draw)
