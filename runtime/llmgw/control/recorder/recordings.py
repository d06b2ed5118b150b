"""Passes as lines of a journal, and lines as passes again; pure.

A journal's first pass is told whole, each later one by what has changed since the one before, so
that it costs what happened and not what there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmgw import __version__
from llmgw.domain.actions import Decision
from llmgw.domain.snapshots import Snapshot
from llmgw.errors import Invalid
from llmgw.kit import trees

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass saw and decided; ``at`` is the time of day, in seconds since 1970."""

    number: int
    at: float
    snapshot: Snapshot
    decision: Decision


@dataclass(frozen=True, slots=True)
class Recording:
    """One pass as it lies in a journal: the tree of its snapshot and of what it decided."""

    number: int
    at: float
    snapshot: Any
    decided: Any

    def read(self) -> Snapshot:
        """The snapshot; ``Invalid`` when it cannot be understood."""
        found: Snapshot = trees.decode(Snapshot, self.snapshot)
        return found


def decided(decision: Decision) -> Mapping[str, Any]:
    """A decision as it is kept and compared."""
    return {
        "actions": [trees.encode_one_of(action) for action in decision.actions],
        "refusals": dict(decision.refusals),
        "faults": [repr(fault) for fault in decision.faults],
    }


def head() -> str:
    """The first line of each journal."""
    return _line({"format": FORMAT, "llmgw": __version__})


def line(one: Pass, *, after: Snapshot | None) -> str:
    """The line of a pass, whole or by what has changed ``after`` the last one that was written."""
    return _line(
        {
            "pass": one.number,
            "at": one.at,
            "snapshot": (
                {trees.WHOLE: trees.encode(one.snapshot)}
                if after is None
                else trees.difference(after, one.snapshot)
            ),
            "decided": decided(one.decision),
        }
    )


def lines(found: Iterable[Recording]) -> Iterator[str]:
    """A journal of passes that were read before."""
    yield head()
    last: Any = None
    for one in found:
        yield _line(
            {
                "pass": one.number,
                "at": one.at,
                "snapshot": (
                    {trees.WHOLE: one.snapshot}
                    if last is None
                    else trees.difference(last, one.snapshot)
                ),
                "decided": one.decided,
            }
        )
        last = one.snapshot


def read(written: Iterable[str]) -> Iterator[Recording]:
    """The passes of one journal; a last line that was cut off is left out.

    ``Invalid`` when it is no journal, or one that this version cannot read.
    """
    written = iter(written)
    _check_head(next(written, ""))
    tree: Any = None
    for text in written:
        if not text.endswith("\n"):
            return  # the process ended while it wrote this one
        try:
            told = json.loads(text)
            tree = trees.patched(tree, told["snapshot"])
            yield Recording(
                number=told["pass"], at=told["at"], snapshot=tree, decided=told["decided"]
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Invalid(f"the journal is damaged: {error!r} in {text[:80]!r}") from error


def _check_head(first: str) -> None:
    try:
        told = json.loads(first)
    except ValueError:
        told = None
    if not isinstance(told, dict) or "format" not in told:
        raise Invalid("this is no journal of passes: its first line does not say so")
    if told["format"] != FORMAT:
        raise Invalid(
            f"the journal has format {told['format']} and was written by llmgw {told.get('llmgw')};"
            f" this is llmgw {__version__}, which reads format {FORMAT}"
        )


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False) + "\n"
