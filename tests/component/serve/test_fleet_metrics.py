"""The fleet's figures on the page that Prometheus reads, beside those of the gateway."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from llmgw.control.reconciler import fleet_families
from llmgw.gateway import families
from llmgw.serve.metrics_pages import MetricsPages
from tests.fakes import clusters
from tests.fakes.simulated import control_plane


class Gateway:
    async def metrics_page(self):
        return "# TYPE llmgw_requests_inflight gauge\nllmgw_requests_inflight 3\n"


def read(page):
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_the_page_has_the_gateway_and_the_fleet(tmp_path):
    async with control_plane(tmp_path, expect=["n1"]) as plane:
        plane.reconciler.register(clusters.facts("n1", gpus=2), ())
        pages = MetricsPages(Gateway(), fleet=plane.metrics_page)
        found = read(await pages.metrics_page())
    assert found["llmgw_requests_inflight", ()] == 3
    assert found["llmgw_leader", ()] == 1
    assert found["llmgw_node_up", ("n1", "ready")] == 1
    assert found["llmgw_gpus", ("h100-80g", "free")] == 2
    assert found["llmgw_evictions_total", ()] == 0
    assert found["llmgw_pass_seconds_count", ()] == found["llmgw_pass_seconds_bucket", ("+Inf",)]


async def test_what_nobody_told_is_on_no_line(tmp_path):
    async with control_plane(tmp_path) as plane:
        page = await plane.metrics_page()
    assert "llmgw_leader_term" not in page
    assert "llmgw_node" not in page


def test_no_figure_is_of_both_gateway_and_fleet():
    ours = {family.name for family in fleet_families.FAMILIES}
    assert ours & {family.name for family in families.FAMILIES} == set()
