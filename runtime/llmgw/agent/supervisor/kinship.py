"""Which processes belong to a shard: by group and session, by the mark they inherit, by descent.

``processes`` ends and counts what is found here. None of the three is enough by itself: a child may
open a session of its own, one that sets its title writes over its environment, and descent is lost
with a parent's end; so those found once are known from then on. Where shards have control groups
(``cgroups``) nobody gets away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from llmgw.agent.supervisor import cgroups
from llmgw.kit import proctable
from llmgw.kit.proctable import Entry

MARK_VARIABLE = "LLMGW_SHARD"
"""Set in every process of a shard to the path of its state file, which no other agent shares."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What names a process across agents, within one boot."""

    name: str
    pid: int
    start_ticks: int


Known = frozenset[tuple[int, int]]
"""Processes by pid and start; the two together are never another's within one boot."""


def known(found: Iterable[Entry]) -> Known:
    """What to look for from now on, whatever becomes of their parents."""
    return frozenset((one.pid, one.start_ticks) for one in found)


class Census:
    """All running processes at one moment; reading them may take some milliseconds."""

    def __init__(self) -> None:
        """Read them now."""
        self._groups = cgroups.own()
        self._found = list(proctable.running())
        self._marks = {
            one.pid: proctable.variable(one.pid, name=MARK_VARIABLE) for one in self._found
        }

    def of(
        self, leaders: Collection[Identity], *, mark: str, known: Known = frozenset()
    ) -> list[Entry]:
        """The processes of one shard whose leaders were started with that mark."""
        grouped = cgroups.pids(self._groups, mark=mark)
        groups = {leader.pid for leader in leaders if not _is_reused(leader)}
        return with_descendants(
            self._found,
            is_root=lambda one: (
                not groups.isdisjoint({one.group, one.session})
                or self._marks[one.pid] == mark
                or one.pid in grouped
                or (one.pid, one.start_ticks) in known
            ),
        )


def with_descendants(found: Collection[Entry], *, is_root: Callable[[Entry], bool]) -> list[Entry]:
    """The roots among these, and whatever they brought forth."""
    members = {one.pid: one for one in found if is_root(one)}
    while more := [one for one in found if one.parent in members and one.pid not in members]:
        members.update((one.pid, one) for one in more)
    return list(members.values())


def _is_reused(leader: Identity) -> bool:
    """Whether its pid is a stranger's by now."""
    now = proctable.entry(leader.pid)
    return now is not None and now.start_ticks != leader.start_ticks
