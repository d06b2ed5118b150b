"""Who was turned away is remembered, within a bound."""

from __future__ import annotations

from llmgw.control.agents.turned_away import Caller, TurnedAway
from llmgw.errors import IdentityMismatch, Standby
from tests.fakes.clock import FakeClock


def test_each_caller_is_listed_once_with_its_last_reason_newest_first():
    clock = FakeClock()
    away = TurnedAway(clock=clock)
    away.note(Caller(peer="ipv4:10.0.0.3:1", node_id="n3"), Standby("a standby"))
    away.note(Caller(peer="ipv4:10.0.0.4:1"), Standby("a standby"))
    clock.advance(5.0)
    away.note(Caller(peer="ipv4:10.0.0.3:2", node_id="n3"), IdentityMismatch("another name"))
    n3, unnamed = away.refusals()
    assert (n3.node_id, n3.message, n3.count, n3.ago_s) == ("n3", "another name", 2, 0.0)
    assert (unnamed.node_id, unnamed.code, unnamed.ago_s) == ("", "standby", 5.0)


def test_one_that_never_gave_a_name_is_known_by_its_address_and_not_by_its_port():
    away = TurnedAway(clock=FakeClock())
    for port in range(3):
        away.note(Caller(peer=f"ipv4:10.0.0.3:{port}"), Standby("a standby"))
    assert [r.count for r in away.refusals()] == [3]


def test_the_memory_is_bounded():
    away = TurnedAway(clock=FakeClock(), limit=2)
    for node_id in ("n1", "n2", "n3"):
        away.note(Caller(peer="x", node_id=node_id), Standby("a standby"))
    assert [r.node_id for r in away.refusals()] == ["n3", "n2"]
