"""What the gateway counts comes out as metrics of declared families, without a client's text."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgw.gateway.families import FAMILIES
from llmgw.kit import metrics
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, whole

STREAM = {**ASK, "stream": True}
EXTRA = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,'
    b'"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
)

pytestmark = ON_ONE_LOOP


def read(stage):
    """The metrics of the gateway, as Prometheus understands them: value by name and labels."""
    page = metrics.render(metrics.merge([stage.gateway.figures()], FAMILIES), FAMILIES)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_every_figure_of_a_worker_is_of_a_declared_family(stage):
    await stage.engine()
    await stage.ask()
    figures = stage.gateway.figures()
    assert len(metrics.merge([figures], FAMILIES)) == len(figures)


async def test_one_request_fills_the_metrics_that_dashboards_name(stage):
    await stage.engine(
        answer=EVENTS + chunk(event("a")) + chunk(EXTRA) + chunk(DONE) + END, node_id="node01"
    )
    await stage.ask(STREAM)
    got = read(stage)
    of_endpoint = (("node", "node01"), ("replica", "e1"))
    assert got["llmgw_requests_total", ("model", "m"), ("status", "200")] == 1
    assert got["llmgw_workload_total", ("state", "completed")] == 1
    assert got["llmgw_workload_total", ("state", "failed")] == 0
    assert got["llmgw_ttft_seconds_count", ("model", "m")] == 1
    assert got["llmgw_request_seconds_count", ("model", "m")] == 1
    assert got["llmgw_tokens_total", ("direction", "input"), ("model", "m")] == 9
    assert got["llmgw_tokens_total", ("direction", "output"), ("model", "m")] == 4
    assert got["llmgw_tokens_total", ("direction", "cached"), ("model", "m")] == 8
    assert got["llmgw_dispatch_total", ("model", "m"), ("outcome", "committed")] == 1
    assert got["llmgw_dispatches_per_request_sum",] == 1
    assert got["llmgw_pool_saturation", ("model", "m")] == 0
    assert got["llmgw_endpoint_inflight", *of_endpoint] == 0
    assert got["llmgw_endpoint_breaker_open", *of_endpoint] == 0
    assert got["llmgw_endpoint_metrics_stale", *of_endpoint] == 1
    assert got["llmgw_connections",] == 1


async def test_what_is_unknown_is_absent_and_not_zero(stage):
    await stage.engine()
    await stage.ask()
    names = {name for name, *_ in read(stage)}
    for unknown in ("running", "waiting", "kv_cache_usage", "drain_rate", "capacity"):
        assert f"llmgw_endpoint_{unknown}" not in names
    assert ("llmgw_tokens_total", ("direction", "cached"), ("model", "m")) not in read(stage)
    stage.drop_endpoint("e1")
    assert "llmgw_pool_saturation" not in {name for name, *_ in read(stage)}


async def test_text_of_a_client_never_becomes_a_label(stage):
    await stage.engine()
    await stage.ask({"model": "canary"})
    await (await stage.send(get("/canary", "X-Session-Id: canary"))).answer()
    page = metrics.render(stage.gateway.figures(), FAMILIES)
    assert "canary" not in page
    assert read(stage)["llmgw_requests_total", ("model", "unknown"), ("status", "404")] == 2


async def test_attempts_are_counted_by_how_they_ended(stage):
    stage.tune(dispatch={"max_attempts": 3})
    engine = await stage.engine("e1", priority=1, answer=whole(status=500))
    await stage.engine("e2")
    await stage.ask()
    assert len(engine.requests) == 1
    got = read(stage)
    assert got["llmgw_dispatch_total", ("model", "m"), ("outcome", "status_500")] == 1
    assert got["llmgw_dispatch_total", ("model", "m"), ("outcome", "committed")] == 1
    assert got["llmgw_dispatches_per_request_bucket", ("le", "1")] == 0
    assert got["llmgw_dispatches_per_request_bucket", ("le", "2")] == 1


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        pytest.param((EVENTS + chunk(event("a")), Do.CLOSE), "lost", id="lost"),
        pytest.param((EVENTS + chunk(event("a")) + END,), "no_end", id="no end"),
    ],
)
async def test_break_is_counted_by_its_cause(stage, steps, cause):
    engine = await stage.engine()
    engine.always(*steps)
    await (await stage.send(post(STREAM))).end()
    got = read(stage)
    assert got["llmgw_truncated_total", ("cause", cause), ("model", "m")] == 1
    assert got["llmgw_usage_estimated_total", ("model", "m")] == 1


async def test_counters_add_up_with_those_of_another_worker(stage):
    await stage.engine()
    await stage.ask()
    once = stage.gateway.figures()
    merged = metrics.merge([once, once], FAMILIES)
    values = {(one.name, *one.labels): one.value for one in merged}
    assert values["llmgw_requests_total", "m", "200"] == 2
    assert values["llmgw_endpoint_metrics_stale", "e1", ""] == 1
