"""Keep who waits for one model in order: band, then least attained service, then arrival; pure.

``admission`` holds one ``WaitingLine`` a model that somebody waits for.  Finding the next takes
time with the number of projects that wait, never with that of their requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

WaiterT = TypeVar("WaiterT")


class _Place(NamedTuple):
    rank: int
    project: str
    arrival: int
    since: float


class WaitingLine(Generic[WaiterT]):
    """See the module; ``rank`` 0 is the most urgent band."""

    __slots__ = ("_arrivals", "_by_rank", "_places")

    def __init__(self) -> None:
        # Of each band the projects, of each project its waiters in the order of their arrival.
        self._by_rank: dict[int, dict[str, dict[WaiterT, _Place]]] = {}
        self._places: dict[WaiterT, _Place] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, waiter: WaiterT) -> bool:
        return waiter in self._places

    def add(self, waiter: WaiterT, *, rank: int, project: str, now: float) -> None:
        """It waits from now on."""
        self._arrivals += 1
        place = _Place(rank, project, self._arrivals, now)
        self._by_rank.setdefault(rank, {}).setdefault(project, {})[waiter] = place
        self._places[waiter] = place

    def remove(self, waiter: WaiterT) -> float:
        """It waits no longer; since when it did.  Raises ``KeyError`` for a stranger."""
        rank, project, _, since = self._places.pop(waiter)
        projects = self._by_rank[rank]
        del projects[project][waiter]
        if not projects[project]:
            del projects[project]
        if not projects:
            del self._by_rank[rank]
        return since

    def ranks(self) -> list[int]:
        """The bands of which somebody waits, most urgent first."""
        return sorted(self._by_rank)

    def has_as_urgent_as(self, rank: int) -> bool:
        """Whether somebody of this or a more urgent band waits."""
        return bool(self._by_rank) and min(self._by_rank) <= rank

    def next_of(self, rank: int, attained: Callable[[str], float]) -> WaiterT:
        """Of one band the first of the project that got least."""
        firsts = {name: _first(waiters) for name, waiters in self._by_rank[rank].items()}
        least = min(firsts, key=lambda name: (attained(name), firsts[name][1].arrival))
        return firsts[least][0]

    def oldest(self) -> list[WaiterT]:
        """Who waits longest in each band, the longest of all first."""
        firsts = [
            min(map(_first, projects.values()), key=_arrival) for projects in self._by_rank.values()
        ]
        return [waiter for waiter, _ in sorted(firsts, key=_arrival)]

    def youngest_of(self, rank: int) -> WaiterT:
        """Who came last in a band."""
        lasts = [next(reversed(waiters.items())) for waiters in self._by_rank[rank].values()]
        return max(lasts, key=_arrival)[0]

    def count_of(self, rank: int) -> int:
        """How many wait of one band."""
        return sum(len(waiters) for waiters in self._by_rank.get(rank, {}).values())


def _first(waiters: dict[WaiterT, _Place]) -> tuple[WaiterT, _Place]:
    return next(iter(waiters.items()))


def _arrival(pair: tuple[object, _Place]) -> int:
    return pair[1].arrival
