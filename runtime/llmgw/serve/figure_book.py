"""The figures of processes that come and go, as those of one.

``workers`` notes what each worker told last.  Counters of one that has ended stay in the sum, so
that they never fall; what it had under way ends with it.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmgw.kit import metrics
from llmgw.kit.metrics import Family, Kind, Sample


class FigureBook:
    """See the module."""

    def __init__(self, families: Iterable[Family]) -> None:
        """``families`` are those that are kept; all others are left out."""
        self._families = tuple(families)
        self._passing = {one.name for one in self._families if one.kind is Kind.GAUGE}
        self._past: list[Sample] = []
        self._by_process: dict[int, Sequence[Sample]] = {}

    def note(self, process: int, samples: Sequence[Sample]) -> None:
        """What a process counts now; replaces what it told before."""
        self._by_process[process] = samples

    def end(self, process: int) -> None:
        """A process has ended; its id may come again."""
        told = self._by_process.pop(process, ())
        lasting = [sample for sample in told if sample.name not in self._passing]
        self._past = metrics.merge((self._past, lasting), self._families)

    def together(self) -> list[Sample]:
        """The figures of all, those that have ended included."""
        return metrics.merge((self._past, *self._by_process.values()), self._families)
