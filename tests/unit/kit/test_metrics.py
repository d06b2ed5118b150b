"""Figures of several processes become one page that Prometheus reads."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from llmgw.kit import metrics
from llmgw.kit.metrics import Family, Kind, Merging, Sample

REQUESTS = Family("t_requests_total", Kind.COUNTER, "Requests.", ("model", "status"))
WAIT = Family("t_wait_seconds", Kind.HISTOGRAM, "Wait.", ("band",), (0.1, 1.0))
SATURATION = Family("t_full", Kind.GAUGE, "Full\nness.", ("model",), merging=Merging.MAX)
PLAIN = Family("t_plain", Kind.GAUGE, "No label.")
ALL = (REQUESTS, WAIT, SATURATION, PLAIN)


def read(page):
    """The page as Prometheus's own parser understands it: value by series."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_counters_and_buckets_add_up_over_processes():
    one = [
        Sample("t_requests_total", ("m", "200"), 3),
        Sample("t_wait_seconds", ("gold",), 0.5, (1, 0, 2)),
    ]
    two = [
        Sample("t_requests_total", ("m", "200"), 4),
        Sample("t_wait_seconds", ("gold",), 1.5, (0, 1, 0)),
    ]
    assert metrics.merge([one, two], ALL) == [
        Sample("t_requests_total", ("m", "200"), 7),
        Sample("t_wait_seconds", ("gold",), 2.0, (1, 1, 2)),
    ]


def test_what_all_see_alike_is_not_added_up():
    seen = [[Sample("t_full", ("m",), value)] for value in (0.25, 0.75, 0.5)]
    assert metrics.merge(seen, ALL) == [Sample("t_full", ("m",), 0.75)]


@pytest.mark.parametrize(
    "sample",
    [
        Sample("t_unheard_of", (), 1),
        Sample("t_requests_total", ("m",), 1),
        Sample("t_wait_seconds", ("gold",), 1, (1, 2)),
    ],
    ids=["unknown family", "other labels", "other buckets"],
)
def test_figures_of_a_worker_of_another_version_spoil_nothing(sample):
    assert metrics.merge([[sample], [Sample("t_plain", (), 1)]], ALL) == [Sample("t_plain", (), 1)]


def test_page_is_read_by_prometheus_itself():
    page = metrics.render(
        [
            Sample("t_requests_total", ('a"b\\c\nd', "200"), 2**40),
            Sample("t_wait_seconds", ("gold",), 2.25, (1, 0, 2)),
            Sample("t_full", ("m",), 0.125),
            Sample("t_plain", (), 0),
        ],
        ALL,
    )
    assert read(page) == {
        ("t_requests_total", (("model", 'a"b\\c\nd'), ("status", "200"))): 2**40,
        ("t_wait_seconds_bucket", (("band", "gold"), ("le", "0.1"))): 1,
        ("t_wait_seconds_bucket", (("band", "gold"), ("le", "1"))): 1,
        ("t_wait_seconds_bucket", (("band", "gold"), ("le", "+Inf"))): 3,
        ("t_wait_seconds_sum", (("band", "gold"),)): 2.25,
        ("t_wait_seconds_count", (("band", "gold"),)): 3,
        ("t_full", (("model", "m"),)): 0.125,
        ("t_plain", ()): 0,
    }


def test_absent_figure_has_no_line():
    assert metrics.render([], ALL) == ""
    assert "t_full" not in metrics.render([Sample("t_plain", (), 1)], ALL)


def test_empty_label_is_left_out():
    assert 't_requests_total{model="m"} 1' in metrics.render(
        [Sample("t_requests_total", ("m", ""), 1)], ALL
    )


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_order_of_the_processes_does_not_matter(buckets):
    processes = [[Sample("t_wait_seconds", ("b",), sum(one), tuple(one))] for one in buckets]
    forward = metrics.merge(processes, ALL)
    random.shuffle(processes)
    assert metrics.merge(processes, ALL) == forward


def test_page_for_people_lists_every_family():
    page = metrics.reference("# Title", ALL)
    assert page.startswith("# Title\n")
    assert all(f"| `{family.name}` |" in page for family in ALL)
