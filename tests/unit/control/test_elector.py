"""Who leads, by the answers of a store and by the candidate's own clock."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.control.leadership.elector import Elector, SoleLeader, Standing, Timing
from llmgw.domain.stored import Lease
from llmgw.errors import Unreachable

TTL_S = 6.0
AWAY = Unreachable("the store does not answer")


class ToldLeases:
    """Answers as it is told; its answer may take time on the candidate's clock."""

    def __init__(self, clock):
        self.clock = clock
        self.answer = None
        self.takes_s = 0.0
        self.asked = []
        self.released = []

    async def take(self, *, owner, address, ttl_s, above_term):
        self.asked.append((owner, address, ttl_s, above_term))
        self.clock.advance(self.takes_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def release(self, *, owner):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.released.append(owner)


class Candidate:
    def __init__(self, clock):
        self.leases = ToldLeases(clock)
        self.elector = Elector(
            self.leases, address="a:9090", timing=Timing(ttl_s=TTL_S), clock=clock
        )
        self.told = []
        self.elector.subscribe(self.told.append)

    async def hears(self, answer):
        self.leases.answer = answer
        await self.elector._campaign()

    def ours(self, term=1):
        return Lease(owner=self.elector.owner, term=term, address="a:9090", left_s=TTL_S)


OTHER = Lease(owner="b", term=7, address="b:9090", left_s=4.0)


@pytest.fixture
def candidate(clock):
    return Candidate(clock)


def test_without_a_store_it_leads_alone():
    alone = SoleLeader()
    alone.heard(9)
    assert alone.is_leader()
    assert alone.term() == 0


async def test_nobody_leads_before_the_store_has_said_so(candidate):
    assert not candidate.elector.is_leader()
    await candidate.hears(AWAY)
    assert candidate.elector.standing() is Standing.STANDBY
    assert candidate.told == []


async def test_the_lease_is_asked_for_as_this_process_at_its_address(candidate):
    await candidate.hears(candidate.ours())
    assert candidate.leases.asked == [(candidate.elector.owner, "a:9090", TTL_S, 0)]


def test_two_processes_are_two_owners(clock):
    assert Candidate(clock).elector.owner != Candidate(clock).elector.owner


async def test_a_leader_leads_until_its_lease_runs_out_by_its_own_clock(candidate, clock):
    await candidate.hears(candidate.ours(term=3))
    assert (candidate.elector.is_leader(), candidate.elector.term()) == (True, 3)
    clock.advance(TTL_S - 0.01)
    assert candidate.elector.is_leader()
    clock.advance(0.01)
    assert candidate.elector.standing() is Standing.LAPSED
    assert candidate.elector.is_lapsed()


async def test_the_time_of_a_slow_answer_is_not_led(candidate, clock):
    """The store counts from when it was asked, at the latest."""
    candidate.leases.takes_s = 2.0
    await candidate.hears(candidate.ours())
    clock.advance(TTL_S - 2.0)
    assert not candidate.elector.is_leader()


async def test_a_store_that_is_away_changes_nothing_in_either_direction(candidate, clock):
    await candidate.hears(candidate.ours())
    clock.advance(2)
    await candidate.hears(AWAY)
    assert candidate.elector.is_leader()
    await candidate.hears(OTHER)
    await candidate.hears(AWAY)
    assert candidate.elector.standing() is Standing.STANDBY


async def test_who_lapsed_leads_again_in_its_term_when_nobody_took_its_place(candidate, clock):
    await candidate.hears(candidate.ours(term=3))
    clock.advance(60)
    await candidate.hears(AWAY)
    await candidate.hears(candidate.ours(term=3))
    assert (candidate.elector.is_leader(), candidate.elector.term()) == (True, 3)
    assert candidate.told == [Standing.LEADS, Standing.LAPSED, Standing.LEADS]


async def test_a_deposed_leader_keeps_its_own_term_so_that_its_orders_are_refused(candidate):
    await candidate.hears(candidate.ours(term=3))
    await candidate.hears(OTHER)
    assert not candidate.elector.is_leader()
    assert candidate.elector.term() == 3
    assert candidate.elector.leader() == OTHER
    assert candidate.told == [Standing.LEADS, Standing.STANDBY]


async def test_an_agent_of_a_higher_term_ends_the_lead_at_once(candidate):
    await candidate.hears(candidate.ours(term=3))
    candidate.elector.heard(3)
    assert candidate.elector.is_leader()
    candidate.elector.heard(8)
    assert candidate.elector.standing() is Standing.LAPSED
    assert candidate.told == [Standing.LEADS, Standing.LAPSED]


async def test_the_next_term_is_above_all_that_agents_have_seen(candidate):
    """Also where the store was lost or set back, so that no agent refuses its orders."""
    candidate.elector.heard(8)
    await candidate.hears(candidate.ours(term=9))
    assert candidate.leases.asked[-1][3] == 8


async def test_a_node_that_has_seen_the_present_term_begins_no_other(candidate, clock):
    await candidate.hears(candidate.ours(term=3))
    candidate.elector.heard(3)
    clock.advance(TTL_S)
    assert candidate.elector.standing() is Standing.LAPSED
    candidate.elector.heard(3)
    await candidate.hears(candidate.ours(term=3))
    assert candidate.leases.asked[-1][3] == 0
    await candidate.hears(OTHER)
    candidate.elector.heard(9)
    await candidate.hears(candidate.ours(term=10))
    assert candidate.leases.asked[-1][3] == 9


async def test_a_standby_comes_back_when_the_lease_of_the_other_ends(candidate):
    await candidate.hears(Lease(owner="b", term=7, address="", left_s=0.5))
    assert 0.5 < candidate.elector._pause_s() < 0.6
    await candidate.hears(OTHER)
    assert candidate.elector._pause_s() == 2.0
    await candidate.hears(Lease(owner="b", term=7, address="", left_s=-3.0))
    assert candidate.elector._pause_s() == 2.0


async def test_an_orderly_end_releases_the_lease_of_a_leader(candidate):
    await candidate.hears(candidate.ours())
    await candidate.elector.close()
    assert candidate.leases.released == [candidate.elector.owner]
    assert not candidate.elector.is_leader()


async def test_a_standby_releases_nothing_at_its_end(candidate):
    await candidate.hears(OTHER)
    await candidate.elector.close()
    assert candidate.leases.released == []


async def test_an_end_without_a_store_is_an_end(candidate):
    await candidate.hears(candidate.ours())
    candidate.leases.answer = AWAY
    await candidate.elector.close()
    assert candidate.elector.standing() is Standing.STANDBY


async def test_a_fault_of_the_store_s_code_ends_no_candidate(candidate):
    candidate.leases.answer = candidate.ours()
    await candidate.elector.start()
    assert candidate.elector.is_leader()
    await candidate.hears(ValueError("ours"))
    assert candidate.elector.is_leader()
    await candidate.hears(candidate.ours())
    await candidate.elector.close()


async def test_an_answer_that_never_comes_is_waited_for_half_a_lease(clock):
    class Silent(ToldLeases):
        async def take(self, **_given):
            await asyncio.Event().wait()

    elector = Elector(Silent(clock), address="", timing=Timing(ttl_s=0.1), clock=clock)
    async with asyncio.timeout(5):
        await elector._campaign()
    assert elector.standing() is Standing.STANDBY


async def test_a_term_begins_once_it_is_prepared_and_a_renewal_is_no_beginning(candidate):
    prepared = []

    async def prepare():
        prepared.append(candidate.elector.is_leader())

    candidate.elector.prepare(prepare)
    await candidate.hears(candidate.ours())
    await candidate.hears(candidate.ours())
    assert prepared == [False]
    await candidate.hears(OTHER)
    await candidate.hears(candidate.ours(term=8))
    assert prepared == [False, False]
    assert candidate.elector.term() == 8


async def test_who_cannot_prepare_does_not_lead_and_leaves_the_lease_to_others(candidate):
    async def prepare():
        raise AWAY

    candidate.elector.prepare(prepare)
    await candidate.hears(candidate.ours())
    assert not candidate.elector.is_leader()
    assert candidate.leases.released == [candidate.elector.owner]
    assert candidate.told == []
