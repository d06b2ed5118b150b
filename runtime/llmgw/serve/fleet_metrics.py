"""The control plane's metrics as a collector of ``prometheus_client``, made anew at each scrape."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from llmgw.control.reconciler import fleet_families
from llmgw.kit.metrics import Family, Kind, Sample


class FleetCollector(Collector):
    """Families of the control plane with what is known of each; one without a sample is absent."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        """``samples`` are those of this moment."""
        self._samples = samples

    def describe(self) -> Iterable[Metric]:
        """Every family that there may be, so that no two collectors take one name."""
        return [_family(family) for family in fleet_families.FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """The families of this moment."""
        by_name: dict[str, list[Sample]] = {}
        for sample in self._samples:
            by_name.setdefault(sample.name, []).append(sample)
        for family in fleet_families.FAMILIES:
            if family.name in by_name:
                yield _filled(family, by_name[family.name])


def page(samples: Iterable[Sample]) -> str:
    """What Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(samples))
    return generate_latest(registry).decode()


def _family(family: Family) -> Metric:
    kinds = {
        Kind.GAUGE: GaugeMetricFamily,
        Kind.COUNTER: CounterMetricFamily,
        Kind.HISTOGRAM: HistogramMetricFamily,
    }
    made: Metric = kinds[family.kind](family.name, family.meaning, labels=family.labels)
    return made


def _filled(family: Family, samples: Iterable[Sample]) -> Metric:
    made = _family(family)
    for sample in samples:
        if isinstance(made, HistogramMetricFamily):
            made.add_metric(sample.labels, _buckets(family, sample), sum_value=sample.value)
        elif isinstance(made, (CounterMetricFamily, GaugeMetricFamily)):
            made.add_metric(sample.labels, sample.value)
    return made


def _buckets(family: Family, sample: Sample) -> list[tuple[str, float]]:
    edges = [*map(str, family.edges), "+Inf"]
    return list(zip(edges, map(float, itertools.accumulate(sample.buckets)), strict=True))
