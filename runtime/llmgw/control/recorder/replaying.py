"""Decides recorded passes once more and compares; pure.

The same function decides as in the live pass, so a difference means that another version decides
otherwise, or that a decision rests on something that is not in its snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmgw.control.reconciler import deciding
from llmgw.control.recorder import recordings
from llmgw.control.recorder.recordings import Recording


@dataclass(frozen=True, slots=True)
class Replay:
    """One pass as it was decided then and as it is decided now."""

    number: int
    at: float
    then: Any
    now: Any

    @property
    def is_same(self) -> bool:
        """Actions, refusals and faults are the same, in the same order."""
        return bool(self.then == self.now)

    def differences(self) -> list[str]:
        """What differs, a line each."""
        pairs = zip(_padded(self.then, self.now), _padded(self.now, self.then), strict=True)
        found = [
            f"action {i + 1}: then {shown(then)}, now {shown(now)}"
            for i, (then, now) in enumerate(pairs)
            if then != now
        ]
        found += [
            f"{part}: then {self.then[part]}, now {self.now[part]}"
            for part in ("refusals", "faults")
            if self.then[part] != self.now[part]
        ]
        return found


def replay(one: Recording) -> Replay:
    """Decide a recorded pass once more."""
    again = recordings.decided(deciding.decide(one.read()))
    return Replay(number=one.number, at=one.at, then=one.decided, now=again)


def at_or_before(found: Iterable[Recording], at: float) -> Recording | None:
    """The last pass that began by then."""
    last = None
    for one in found:
        if one.at > at:
            break
        last = one
    return last


def shown(action: Any) -> str:
    """An action of a recording in a few words."""
    if action is None:
        return "nothing"
    what = subject(action)
    return f"{action['kind']} {what} ({action.get('reason', '')})".replace(" ()", "")


def subject(action: Any) -> str:
    """The thing that a recorded action is about."""
    if "replica" in action:
        return str(action["replica"]["replica_id"])
    if "spec" in action:
        return str(action["spec"]["shard_id"])
    for name in ("shard_id", "replica_id", "model", "node_id"):
        if name in action:
            return str(action[name])
    return ""


def _padded(one: Any, other: Any) -> list[Any]:
    missing = max(0, len(other["actions"]) - len(one["actions"]))
    return [*one["actions"], *[None] * missing]
