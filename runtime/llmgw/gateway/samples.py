"""Make metrics of what the rooms of the gateway count; pure.

``server`` asks for them when somebody wants the figures of its worker.  All names are of
``families``; what is unknown gets no sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from llmgw.gateway import saturating
from llmgw.gateway.admission import AdmissionStats
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.holding import LoadStats
from llmgw.gateway.metering import Stats, Tally
from llmgw.gateway.prefix import Following
from llmgw.kit.metrics import Sample, counts


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """One endpoint at one moment."""

    endpoint_id: str
    inflight: int
    idle_connections: int
    is_breaker_open: bool


@dataclass(frozen=True, slots=True)
class GatewayStats:
    """All figures of one worker at one moment."""

    totals: Stats
    endpoints: tuple[EndpointStats, ...]
    connections: int
    most_connections: int
    refused_connections: int
    missing_files: int
    buffered_body_bytes: int
    dropped_log_lines: int
    table_number: int
    prefix_decisions: Mapping[Following, int]
    prefix_nodes: int
    admission: AdmissionStats
    loads: LoadStats
    fallbacks: Mapping[tuple[str, str, str], int]
    dropped_events: int
    untaken_bytes: int


def of_worker(stats: GatewayStats, *, table_age_s: float) -> Iterator[Sample]:
    """What one worker counts and holds."""
    yield from of_requests(stats.totals)
    yield from _of_entering(stats)
    following = {what.value: count for what, count in stats.prefix_decisions.items()}
    yield from counts("llmgw_prefix_decisions_total", following)
    yield Sample("llmgw_connections", (), stats.connections)
    yield Sample("llmgw_connections_most", (), stats.most_connections)
    yield Sample("llmgw_connections_refused_total", (), stats.refused_connections)
    yield Sample("llmgw_files_missing_total", (), stats.missing_files)
    yield Sample("llmgw_stream_bytes_buffered", (), stats.untaken_bytes)
    yield Sample("llmgw_request_bytes_buffered", (), stats.buffered_body_bytes)
    yield Sample("llmgw_events_dropped_total", (), stats.dropped_events)
    yield Sample("llmgw_log_lines_dropped_total", (), stats.dropped_log_lines)
    yield Sample("llmgw_route_table_age_seconds", (), table_age_s)


def of_requests(stats: Stats) -> Iterator[Sample]:
    """What became of requests."""
    for state, count in stats.states.items():
        yield Sample("llmgw_workload_total", (state.value,), count)
    yield Sample("llmgw_requests_inflight", (), stats.inflight)
    yield Sample("llmgw_dispatches_per_request", (), stats.attempts, stats.attempt_buckets)
    yield from counts("llmgw_stalled_streams_total", stats.stalled)
    for model, tally in stats.by_model.items():
        yield from _of_model(model, tally)


def of_endpoints(lives: Iterable[LiveEndpoint], *, now: float) -> Iterator[Sample]:
    """What is known of endpoints; what an engine does not publish is absent."""
    for live in lives:
        labels = (live.facts.endpoint_id, live.facts.node_id)
        for name, value in _of_endpoint(live, now):
            if value is not None:
                yield Sample(f"llmgw_endpoint_{name}", labels, value)
        yield Sample("llmgw_metric_contract_broken", labels, len(live.lacks))
        yield Sample("llmgw_scrape_failures_total", labels, live.failed_looks)


def of_pools(owners: Mapping[str, Collection[LiveEndpoint]], *, now: float) -> Iterator[Sample]:
    """How full the endpoints of each model are and how evenly; nothing of a model without any."""
    for model, lives in owners.items():
        ready = [one for one in lives if one.is_ready and one.breaker.may_pass(now)]
        if not ready:
            continue
        yield Sample("llmgw_pool_saturation", (model,), saturating.of_pool(ready))
        loads = [one.load() for one in ready]
        if len(loads) > 1 and any(loads):
            variation = statistics.pstdev(loads) / statistics.fmean(loads)
            yield Sample("llmgw_load_cv", (model,), variation)


def _of_entering(stats: GatewayStats) -> Iterator[Sample]:
    """How requests got in, or did not."""
    admission, loads = stats.admission, stats.loads
    yield from counts("llmgw_admission_rejected_total", admission.rejected)
    for band, buckets in admission.wait_buckets.items():
        yield Sample("llmgw_queue_wait_seconds", (band,), admission.wait_sum_s[band], buckets)
    for labels, depth in admission.depths.items():
        yield Sample("llmgw_queue_depth", labels, depth)
    yield Sample("llmgw_leases_swept_total", (), admission.swept_leases)
    yield from counts("llmgw_on_demand_held", loads.held)
    results = {result.value: count for result, count in loads.results.items()}
    yield from counts("llmgw_on_demand_total", results)
    for way, count in stats.fallbacks.items():
        yield Sample("llmgw_fallback_total", way, count)


def _of_model(model: str, tally: Tally) -> Iterator[Sample]:
    of_model = (model,)
    for status, count in tally.statuses.items():
        yield Sample("llmgw_requests_total", (model, str(status)), count)
    for outcome, count in tally.outcomes.items():
        yield Sample("llmgw_dispatch_total", (model, outcome), count)
    for cut, count in tally.cuts.items():
        yield Sample("llmgw_truncated_total", (model, cut.value), count)
    if not any(tally.request_buckets):
        return  # of requests for no model
    yield Sample("llmgw_ttft_seconds", of_model, tally.ttft_sum_s, tuple(tally.ttft_buckets))
    yield Sample(
        "llmgw_request_seconds", of_model, tally.request_sum_s, tuple(tally.request_buckets)
    )
    yield Sample("llmgw_tokens_total", (model, "input"), tally.input_tokens)
    yield Sample("llmgw_tokens_total", (model, "output"), tally.output_tokens)
    if tally.has_cached_tokens:
        yield Sample("llmgw_tokens_total", (model, "cached"), tally.cached_tokens)
    yield Sample("llmgw_usage_estimated_total", of_model, tally.estimated)
    yield Sample("llmgw_no_done_total", of_model, tally.lacking_done)


def _of_endpoint(live: LiveEndpoint, now: float) -> Iterator[tuple[str, float | None]]:
    if (seen := live.latest) is not None:
        yield "running", seen.running
        yield "waiting", seen.waiting
        yield "kv_cache_usage", seen.kv
        yield "drain_rate", seen.drain
        yield "capacity", seen.capacity
    yield "inflight", live.inflight
    yield "reserved", live.seat.reserved
    yield "load", live.load()
    yield "breaker_open", float(not live.breaker.may_pass(now))
    yield "metrics_stale", float(live.standing.is_stale)
    yield "ejected", float(live.is_ejected)
