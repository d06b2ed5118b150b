"""Figures of workers that come and go."""

import pytest

from llmgw.kit.metrics import Family, Kind, Sample
from llmgw.serve.figure_book import FigureBook

_FAMILIES = (
    Family("asked_total", Kind.COUNTER, "Asked.", ("model",)),
    Family("waits", Kind.HISTOGRAM, "Waits.", (), (1.0,)),
    Family("inflight", Kind.GAUGE, "Under way."),
)


@pytest.fixture
def book():
    return FigureBook(_FAMILIES)


def told(asked, *, inflight=0):
    return (
        Sample("asked_total", ("m",), asked),
        Sample("waits", (), 0.5, (asked, 0)),
        Sample("inflight", (), inflight),
    )


def shown(book):
    return {sample.name: sample for sample in book.together()}


def test_figures_of_workers_are_added_up(book):
    book.note(1, told(3, inflight=1))
    book.note(2, told(4, inflight=2))
    seen = shown(book)
    assert (seen["asked_total"].value, seen["inflight"].value) == (7, 3)
    assert seen["waits"].buckets == (7, 0)


def test_what_a_worker_told_before_is_replaced(book):
    book.note(1, told(3))
    book.note(1, told(5))
    assert shown(book)["asked_total"].value == 5


def test_counters_go_on_over_a_workers_death_and_what_it_had_under_way_does_not(book):
    book.note(1, told(3, inflight=9))
    book.end(1)
    seen = shown(book)
    assert (seen["asked_total"].value, seen["waits"].buckets) == (3, (3, 0))
    assert "inflight" not in seen
    book.note(1, told(1, inflight=1))  # the id came again
    assert shown(book)["asked_total"].value == 4
    book.end(1)
    book.end(1)
    assert shown(book)["asked_total"].value == 4
