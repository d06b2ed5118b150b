"""All metrics of the gateway, declared in one list.

``figures`` makes the samples, ``serve`` merges those of all workers and renders them;
``docs/reference/metrics.md`` is made from this list.  Labels are bounded: names that the operator
chose, and words of ours, never a client's text.
"""

from __future__ import annotations

from llmgw.kit import metrics
from llmgw.kit.metrics import Family, Kind, Merging

TTFT_EDGES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper edges of the buckets of time to first token; one more bucket has no edge."""

REQUEST_EDGES_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
WAIT_EDGES_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SCRAPE_EDGES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
ATTEMPT_EDGES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_OF_ENDPOINT = ("replica", "node")


def _of_endpoint(name: str, meaning: str, *, merging: Merging = Merging.MAX) -> Family:
    return Family(f"llmgw_endpoint_{name}", _G, meaning, _OF_ENDPOINT, merging=merging)


FAMILIES = (
    # Requests
    Family("llmgw_requests_total", _C, "Requests that ended, by status.", ("model", "status")),
    Family("llmgw_workload_total", _C, "Requests that ended, by how.", ("state",)),
    Family("llmgw_requests_inflight", _G, "Requests under way."),
    Family(
        "llmgw_ttft_seconds",
        _H,
        "From sending to the first byte of the body.",
        ("model",),
        TTFT_EDGES_S,
    ),
    Family(
        "llmgw_request_seconds",
        _H,
        "From the first byte of a request to the last of its answer.",
        ("model",),
        REQUEST_EDGES_S,
    ),
    Family(
        "llmgw_tokens_total",
        _C,
        "Tokens read and written by engines: input, output, and of the input those cached.",
        ("model", "direction"),
    ),
    Family(
        "llmgw_usage_estimated_total",
        _C,
        "Answers whose engine did not say what they cost, so that it was estimated.",
        ("model",),
    ),
    Family(
        "llmgw_dispatch_total",
        _C,
        "Attempts, by how each ended; `committed` became the answer.",
        ("model", "outcome"),
    ),
    Family("llmgw_dispatches_per_request", _H, "Attempts that a request took.", (), ATTEMPT_EDGES),
    Family(
        "llmgw_fallback_total", _C, "Requests that another model took.", ("from", "to", "reason")
    ),
    # Admission and choice
    Family("llmgw_queue_wait_seconds", _H, "Wait for admission.", ("band",), WAIT_EDGES_S),
    Family("llmgw_queue_depth", _G, "Requests that wait for admission.", ("model", "band")),
    Family("llmgw_admission_rejected_total", _C, "Requests refused for overload.", ("band",)),
    Family(
        "llmgw_pool_saturation",
        _G,
        "How full the endpoints of a model are together; 1 is what they can take and stay well.",
        ("model",),
        merging=Merging.MAX,
    ),
    Family(
        "llmgw_load_cv",
        _G,
        "Coefficient of variation of the load of a model's endpoints.",
        ("model",),
        merging=Merging.MAX,
    ),
    Family("llmgw_prefix_decisions_total", _C, "What became of prefix affinity.", ("decision",)),
    Family("llmgw_leases_swept_total", _C, "Admissions not given back; a fault if not 0."),
    Family("llmgw_on_demand_held", _G, "Requests that wait for a load.", ("model",)),
    Family("llmgw_on_demand_total", _C, "Loads that requests asked for.", ("result",)),
    # Streams
    Family(
        "llmgw_truncated_total",
        _C,
        "Answers that broke off after their first byte: `lost` with the connection, `no_end` "
        "without the stream's own end, `stuck` and `silent` for want of progress, `stopping` with "
        "the gateway, `fault` by an error of ours.",
        ("model", "cause"),
    ),
    Family(
        "llmgw_no_done_total", _C, "Streams that finished without `[DONE]`; complete.", ("model",)
    ),
    Family(
        "llmgw_stalled_streams_total",
        _C,
        "Answers cut after their first byte because nothing more came.",
        ("replica",),
    ),
    Family("llmgw_stream_bytes_buffered", _G, "Bytes of answers that slow clients did not take."),
    # Endpoints
    _of_endpoint("running", "Requests that the engine works on, as it says."),
    _of_endpoint("waiting", "Requests that wait in the engine, as it says."),
    _of_endpoint("kv_cache_usage", "Share of the KV cache in use, as the engine says."),
    _of_endpoint("drain_rate", "Requests that the engine completes a second, smoothed."),
    _of_endpoint("capacity", "The most requests ever seen running at once."),
    _of_endpoint("inflight", "Requests that the gateway has there.", merging=Merging.MAX),
    _of_endpoint("reserved", "Requests sent there since the engine was asked last."),
    _of_endpoint("load", "What picking counts as its load."),
    _of_endpoint("breaker_open", "1 while the endpoint is left alone after failures."),
    _of_endpoint("metrics_stale", "1 while what the engine said last is too old to count."),
    _of_endpoint("ejected", "1 while the endpoint makes no progress and gets no requests."),
    Family(
        "llmgw_metric_contract_broken",
        _G,
        "Named metrics that the engine does not publish.",
        _OF_ENDPOINT,
        merging=Merging.MAX,
    ),
    Family(
        "llmgw_scrape_seconds", _H, "Time to ask an engine for its metrics.", (), SCRAPE_EDGES_S
    ),
    Family("llmgw_scrape_failures_total", _C, "Engines asked in vain.", _OF_ENDPOINT),
    # The gateway itself
    Family("llmgw_connections", _G, "Clients that are connected."),
    Family("llmgw_connections_most", _G, "Clients that may be, for the files that may be open."),
    Family("llmgw_connections_refused_total", _C, "Clients turned away because there were more."),
    Family(
        "llmgw_files_missing_total",
        _C,
        "Connections to engines that could not be opened because too many files were open.",
    ),
    Family("llmgw_request_bytes_buffered", _G, "Bytes of request bodies held."),
    Family("llmgw_usage_running", _G, "Requests of keys that were sent and have not ended."),
    Family(
        "llmgw_usage_waiting_bytes", _G, "Notes of usage that are in memory and on no disk yet."
    ),
    Family(
        "llmgw_usage_dropped_total",
        _C,
        "Requests that are not accounted, because the disk took nothing for too long.",
    ),
    Family("llmgw_usage_rows_total", _C, "Requests whose usage this server brought to the store."),
    Family("llmgw_usage_lost_total", _C, "Of these, those whose worker died: an estimate."),
    Family(
        "llmgw_usage_behind_seconds",
        _G,
        "How long the store has taken no usage, which waits on the disk; 0 while it does.",
    ),
    Family("llmgw_events_dropped_total", _C, "Workload events that nobody took in time."),
    Family("llmgw_log_lines_dropped_total", _C, "Lines of requests that could not be written."),
    Family(
        "llmgw_route_table_age_seconds",
        _G,
        "Time since the last route table came.",
        merging=Merging.MAX,
    ),
    Family("llmgw_tasks", _G, "Tasks of workers: a few, and one more for each dial under way."),
    Family("llmgw_memory_blocks", _G, "Pieces of memory that Python has in use in workers."),
    Family("llmgw_worker_up", _G, "1 for each gateway worker that serves.", ("worker",)),
    Family(
        "llmgw_control_plane_connected",
        _G,
        "Of a gateway on a host of its own: 1 while a control plane tells it what is served, 0 "
        "while it serves from its last table.",
    ),
)

_HEAD = """# Metrics of the gateway

Made from the code by `make docs`; do not edit.

`GET /metrics` gives the figures of all gateway workers together, in the text format of Prometheus.
Counters go on over the death of a worker; what is unknown is absent, not zero.
A model that nobody knows is labelled `unknown`.
`replica` is the id of an endpoint, `node` the machine that it runs on."""


def page() -> str:
    """The page of reference that lists them."""
    return metrics.reference(_HEAD, FAMILIES)
