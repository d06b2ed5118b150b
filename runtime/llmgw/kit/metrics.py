"""Declare metrics, add up the figures of several processes, and write them as Prometheus reads.

Each process gives its figures as ``Sample``s of declared families (``gateway/families.py`` has the
gateway's); the server merges those of all workers and renders them.  A figure that is unknown is
absent: no sample, no line.  Pure.  The text is the exposition format 0.0.4.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(enum.StrEnum):
    """What a figure is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merging(enum.Enum):
    """How the figures of several processes become one."""

    SUM = "sum"
    MAX = "max"
    """For what all of them see alike, such as the state of an engine."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric as it is declared; ``edges`` are the upper edges of a histogram's buckets."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    merging: Merging = Merging.SUM


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure of a family; ``value`` of a histogram is its sum.

    ``buckets`` has one count more than the family has edges, and each counts its own bucket alone.
    """

    name: str
    labels: tuple[str, ...] = ()
    value: float = 0.0
    buckets: tuple[int, ...] = ()


def merge(processes: Iterable[Iterable[Sample]], families: Iterable[Family]) -> list[Sample]:
    """The figures of several processes as one; what no family declares is left out."""
    declared = {family.name: family for family in families}
    merged: dict[tuple[str, tuple[str, ...]], Sample] = {}
    for sample in itertools.chain.from_iterable(processes):
        family = declared.get(sample.name)
        if family is None or not _fits(sample, family):
            continue  # of a worker of another version
        key = (sample.name, sample.labels)
        known = merged.get(key)
        merged[key] = sample if known is None else _together(known, sample, family.merging)
    return list(merged.values())


def render(samples: Iterable[Sample], families: Iterable[Family]) -> str:
    """The page that Prometheus reads, in the order of ``families``."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for family in families:
        of_family = sorted(by_name.get(family.name, ()), key=lambda one: one.labels)
        if of_family:
            lines.append(f"# HELP {family.name} {_one_line(family.meaning)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in of_family:
            lines.extend(_lines(sample, family))
    return "\n".join([*lines, ""])


def reference(title: str, families: Iterable[Family]) -> str:
    """A page for people, in Markdown, that lists what is declared."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels) or '-'} | {one.meaning} |"
        for one in families
    ]
    return "\n".join(
        [title, "", "| metric | kind | labels | meaning |", "|---|---|---|---|", *rows, ""]
    )


def counts(name: str, by_label: Mapping[str, float]) -> Iterator[Sample]:
    """The samples of a family with one label."""
    for label, value in by_label.items():
        yield Sample(name, (label,), value)


def _fits(sample: Sample, family: Family) -> bool:
    if len(sample.labels) != len(family.labels):
        return False
    return len(sample.buckets) == (len(family.edges) + 1 if family.edges else 0)


def _together(one: Sample, other: Sample, merging: Merging) -> Sample:
    if merging is Merging.MAX:
        return max(one, other, key=lambda sample: sample.value)
    buckets = tuple(map(sum, zip(one.buckets, other.buckets, strict=True)))
    return Sample(one.name, one.labels, one.value + other.value, buckets)


def _lines(sample: Sample, family: Family) -> Iterator[str]:
    pairs = [
        f'{name}="{_escaped(value)}"'
        for name, value in zip(family.labels, sample.labels, strict=True)
        if value
    ]
    labels = "{" + ",".join(pairs) + "}" if pairs else ""
    if family.kind is not Kind.HISTOGRAM:
        yield f"{family.name}{labels} {_number(sample.value)}"
        return
    count = 0
    for edge, in_bucket in zip((*family.edges, math.inf), sample.buckets, strict=True):
        count += in_bucket
        within = ",".join([*pairs, f'le="{_number(edge)}"'])
        yield f"{family.name}_bucket{{{within}}} {count}"
    yield f"{family.name}_sum{labels} {_number(sample.value)}"
    yield f"{family.name}_count{labels} {count}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _one_line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", " ")
