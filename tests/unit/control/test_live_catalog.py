"""Which catalog is current, who leads, and how settings become options."""

from __future__ import annotations

from llmgw.config.settings import ControlSettings
from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.reconciler import options
from llmgw.domain import catalog_rules
from tests.fakes import clusters


def test_reader_that_holds_a_catalog_sees_no_change_of_it():
    before = catalog_rules.build([clusters.model("a")])
    live = LiveCatalog(before)
    held = live.current()
    live.swap(catalog_rules.build([clusters.model("b")]))
    assert held is before
    assert set(held.models) == {"a"}
    assert set(live.current().models) == {"b"}


def test_swap_is_told_until_nobody_wants_to_know():
    live, told = LiveCatalog(catalog_rules.build([])), []
    unsubscribe = live.subscribe(lambda: told.append(set(live.current().models)))
    live.swap(catalog_rules.build([clusters.model("a")]))
    unsubscribe()
    unsubscribe()
    live.swap(catalog_rules.build([]))
    assert told == [{"a"}]


def test_sole_leader_leads_in_a_term_that_nobody_checks():
    assert SoleLeader().is_leader()
    assert SoleLeader().term() == 0


def test_settings_become_options():
    made = options.of(
        ControlSettings(interval=1.0, lost_after=30.0, expect_nodes=("a",), port_range=(1, 2)),
        also_expected=["b"],
    )
    assert (made.interval_s, made.bounds.lost_after_s, made.bounds.port_range) == (
        1.0,
        30.0,
        (1, 2),
    )
    assert made.expected_nodes == {"a", "b"}
