"""When an answer that has begun and brings nothing more is given up.

``dispatch`` looks at its relay through a ``Silence`` a few times within the shorter bound, and only
after commit; before it the bounds of an attempt hold.  Comments of a stream do not count: they say
that the engine's server lives, not that it works.  No clocks of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from llmgw.config.carrying import StreamSettings
from llmgw.gateway.exchange import Cut

_LOOKS_PER_BOUND = 4


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may bring nothing.

    After ``suspect_s`` it is given up if its endpoint makes no progress, after ``hard_s`` in any
    case; 0 is no bound.  ``hard_by_profile_s`` has those of routing profiles.
    """

    suspect_s: float
    hard_s: float
    hard_by_profile_s: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, stream: StreamSettings, *, default_profile: str) -> Patience:
        """The bounds that the operator chose; models that name no profile have the default's."""
        own = stream.idle_hard_by_profile
        by_profile = {
            "chat": own.chat,
            "batch": own.batch,
            "long-context": own.long_context,
            "debug": own.debug,
        }
        by_profile[""] = by_profile[default_profile]
        return cls(
            suspect_s=stream.idle_suspect_s,
            hard_s=stream.idle_hard_s,
            hard_by_profile_s={
                profile: hard_s for profile, hard_s in by_profile.items() if hard_s is not None
            },
        )

    def look_every_s(self, profile: str) -> float:
        """How often to look, so that a bound is kept within a quarter."""
        hard_s = self.hard_of(profile) or self.suspect_s
        return min(self.suspect_s, hard_s) / _LOOKS_PER_BOUND

    def hard_of(self, profile: str) -> float:
        """The longest silence of an answer of this routing profile."""
        return self.hard_by_profile_s.get(profile, self.hard_s)


WITH_REFUSALS = Patience(suspect_s=30.0, hard_s=30.0)
"""An engine that refuses needs no time to think over the rest of it."""


class Talking(Protocol):
    """What is looked at: an answer on its way."""

    events: int

    @property
    def mark(self) -> int:
        """Another number whenever bytes have come."""
        ...

    def has_brought(self, *, mark: int, events: int) -> bool:
        """Whether anything but comments came since then."""
        ...


class Silence:
    """How long one answer has brought nothing; it is to be looked at every ``look_every_s``."""

    __slots__ = ("_events", "_hard_s", "_mark", "_since", "_suspect_s", "look_every_s")

    def __init__(self, patience: Patience, *, profile: str, begun_at: float) -> None:
        self._suspect_s = patience.suspect_s
        self._hard_s = patience.hard_of(profile)
        self.look_every_s = patience.look_every_s(profile)
        self._since = begun_at
        self._mark = -1
        self._events = 0

    def look(self, answer: Talking, *, now: float, is_excused: bool, is_stuck: bool) -> Cut | None:
        """Why to give the answer up now, if at all.

        ``is_excused`` while its client takes nothing, so that the engine is not even read;
        ``is_stuck`` while its endpoint makes no progress.
        """
        if is_excused or answer.has_brought(mark=self._mark, events=self._events):
            self._since = now
        self._mark, self._events = answer.mark, answer.events
        silent_s = now - self._since
        if is_stuck and silent_s >= self._suspect_s:
            return Cut.STUCK
        if self._hard_s and silent_s >= self._hard_s:
            return Cut.SILENT
        return None
