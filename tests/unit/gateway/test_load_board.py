"""In-flight counts and reservations, of one worker and of several."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.errors import Invalid
from llmgw.gateway import board_layout
from llmgw.gateway.allotting import Allotment
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.board_layout import Layout
from llmgw.gateway.bulletin import UNSEEN, Bulletin
from llmgw.kit import mmapboard
from tests.fakes.clock import FakeClock

_A, _B = ("a", "http://127.0.0.1:1"), ("b", "http://127.0.0.1:2")


class Host:
    """A server's board with the boards of its workers."""

    def __init__(self, folder, *endpoints, workers=2):
        self.clock = FakeClock()
        self.path = board_layout.path(folder)
        self.words = mmapboard.created(self.path, count=Layout().words)
        self.words[board_layout.ROWS_IN_USE] = workers
        self.allotment = Allotment(self.words, Layout(), keep_s=60)
        self.list(*endpoints)
        self.workers = [self.worker(row) for row in range(workers)]

    def worker(self, row):
        return LoadBoard.attached(self.path, row=row, now=self.clock.monotonic)

    def list(self, *endpoints):
        keys = [board_layout.key_of(*one) for one in endpoints]
        return self.allotment.agree(keys, now=self.clock.monotonic())


@pytest.fixture
def alone():
    return LoadBoard.private(now=FakeClock().monotonic).seat(*_A)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path, _A)


@pytest.fixture
def seats(host):
    return [worker.seat(*_A) for worker in host.workers]


def scrape(seat, **figures):
    seat.open_generation()
    seat.publish(Bulletin(scraped_at=1.0, **figures))


def test_what_is_taken_counts_until_it_is_given_back(alone):
    handles = [alone.take(), alone.take()]
    assert (alone.inflight, alone.reserved) == (2, 2)
    for handle in handles:
        alone.give_back(handle)
    assert (alone.inflight, alone.reserved) == (0, 0)


def test_what_one_worker_takes_another_sees_before_the_next_scrape(seats):
    one, other = seats
    handle = one.take()
    assert (other.inflight, other.reserved) == (1, 1)
    one.give_back(handle)
    assert (other.inflight, other.reserved) == (0, 0)


def test_figures_end_the_reservations_that_they_show(seats):
    one, other = seats
    handles = [one.take(), other.take()]
    scrape(one, running=2)
    assert [(seat.inflight, seat.reserved) for seat in seats] == [(2, 0), (2, 0)]
    one.give_back(handles[0])
    other.give_back(handles[1])
    assert [(seat.inflight, seat.reserved) for seat in seats] == [(0, 0), (0, 0)]


def test_a_late_end_of_an_older_generation_leaves_the_reservations_of_a_later_one(alone):
    old = [alone.take() for _ in range(3)]
    scrape(alone)
    scrape(alone)
    late = alone.take()
    for handle in old:
        alone.give_back(handle)
    assert (alone.inflight, alone.reserved) == (1, 1)
    alone.give_back(late)
    assert (alone.inflight, alone.reserved) == (0, 0)


def test_what_is_sent_while_the_engine_is_asked_is_still_reserved(alone):
    before = alone.take()
    alone.open_generation()
    during = alone.take()
    alone.publish(Bulletin(running=1, scraped_at=1.0))
    assert alone.reserved == 1
    alone.give_back(during)
    alone.give_back(before)
    assert (alone.inflight, alone.reserved) == (0, 0)


def test_a_generation_that_is_published_twice_ends_nothing_more(alone):
    alone.open_generation()
    alone.publish(Bulletin(scraped_at=1.0))
    alone.take()
    alone.publish(Bulletin(scraped_at=1.0))
    assert alone.reserved == 1


def test_failed_scrapes_leave_every_reservation_counted(alone):
    alone.take()
    for _ in range(5):
        alone.open_generation()
        alone.take()
    assert alone.reserved == 6
    alone.publish(Bulletin(scraped_at=1.0))
    assert alone.reserved == 5, "those of the open generation stay: it cannot be told which"
    scrape(alone)
    assert (alone.inflight, alone.reserved) == (6, 0)


def test_generations_wrap(alone):
    slot = alone._slot
    for word in (board_layout.OPEN_GENERATION, board_layout.PUBLISHED_GENERATION):
        alone._words[slot + word] = 2**32 - 1
    old = alone.take()
    alone.open_generation()
    new = alone.take()
    assert (old, new) == (2**32 - 1, 0)
    assert alone.reserved == 2
    alone.publish(Bulletin(scraped_at=1.0))
    assert alone.reserved == 1
    alone.give_back(new)
    alone.give_back(old)
    assert (alone.inflight, alone.reserved) == (0, 0)


@given(steps=st.lists(st.sampled_from(["take", "back", "open", "publish"]), max_size=200))
def test_whatever_happens_load_is_never_negative_and_ends_at_zero(steps):
    seat = LoadBoard.private(now=FakeClock().monotonic, slots=1).seat(*_A)
    held, draw = [], random.Random(1)
    for step in steps:
        if step == "take":
            held.append(seat.take())
        elif step == "back" and held:
            seat.give_back(held.pop(draw.randrange(len(held))))
        elif step == "open":
            seat.open_generation()
        elif step == "publish":
            seat.publish(Bulletin(scraped_at=1.0))
        assert seat.inflight == len(held)
        assert 0 <= seat.reserved <= len(held)
    for handle in held:
        seat.give_back(handle)
    assert (seat.inflight, seat.reserved) == (0, 0)


def test_figures_reach_every_worker_and_absent_ones_stay_absent(seats):
    told = Bulletin(running=3, waiting=1, kv=None, drain=0.5, is_proven=True, scraped_at=12.5)
    assert seats[1].bulletin == UNSEEN
    seats[0].open_generation()
    seats[0].publish(told)
    assert seats[1].bulletin == told


def test_half_written_figures_are_not_read(seats):
    one, other = seats
    scrape(one, running=3)
    assert other.bulletin.running == 3
    sequence = one._slot + board_layout.SEQUENCE
    one._words[sequence] += 1
    assert other.bulletin.running == 3, "the last good copy"
    one._words[sequence] += 1
    one._words[one._slot + board_layout.BULLETIN + 2] = mmapboard.of_real(9)
    assert other.bulletin.running == 3, "a word that does not fit the others"
    scrape(one, running=4)
    assert other.bulletin.running == 4


def test_a_publisher_that_died_over_its_writing_is_followed_by_one_that_is_read(seats):
    one, other = seats
    scrape(one, running=3)
    one._words[one._slot + board_layout.SEQUENCE] += 1
    scrape(other, running=5)
    assert one.bulletin.running == 5


def test_an_ejected_endpoint_is_so_for_every_worker(seats):
    seats[0].eject(1.0, is_stalled=False)
    assert seats[1].is_ejected
    seats[0].readmit()
    assert not seats[1].is_ejected


def test_never_used_is_absent_and_the_latest_use_of_any_worker_counts(host, seats):
    assert seats[0].last_used_at is None
    host.clock.advance(5)
    seats[1].take()
    assert seats[0].last_used_at == host.clock.monotonic()
    host.clock.advance(5)
    seats[0].take()
    assert seats[1].last_used_at == host.clock.monotonic()


def test_a_byte_that_any_worker_relayed_is_progress_for_all(host, seats):
    assert seats[0].progressed_at is None
    seats[1].progressed(2.5)
    assert seats[0].progressed_at == 2.5


def test_a_worker_that_comes_later_is_counted_after_the_next_look(host, seats):
    host.words[board_layout.ROWS_IN_USE] = 3
    host.worker(2).seat(*_A).take()
    assert seats[0].inflight == 0
    host.workers[0].look()
    assert seats[0].inflight == 1


def test_a_slot_that_is_another_endpoints_now_is_not_touched_by_a_late_end(host, seats):
    late = seats[0]
    handle = late.take()
    late.give_back(handle)
    host.list(_B)
    host.clock.advance(60)
    _take_all_slots(host)
    host.workers[0].look()
    fresh = host.workers[0].seat(*_B)
    reused = host.workers[0].seat("last", "http://x")
    assert reused.slot == late.slot
    kept = reused.take()
    late.give_back(handle)
    late.take()
    late.eject(1.0, is_stalled=False)
    assert (reused.inflight, reused.reserved, fresh.inflight) == (1, 1, 0)
    assert not reused.is_ejected
    reused.give_back(kept)
    assert reused.inflight == 0


def _take_all_slots(host):
    """The last one gets the slot that was left; the server still lists ``_B``."""
    now = host.clock.monotonic()
    for number in range(board_layout.SLOTS - 2):
        host.allotment.hold(board_layout.key_of(str(number), "http://filler"), now=now)
    host.allotment.hold(board_layout.key_of("last", "http://x"), now=now)


def test_figures_of_the_endpoint_before_are_not_those_of_the_next(host, seats):
    scrape(seats[0], running=7)
    seats[0].eject(1.0, is_stalled=False)
    host.list(_B)
    host.clock.advance(60)
    _take_all_slots(host)
    host.workers[1].look()
    reused = host.workers[1].seat("last", "http://x")
    assert reused.slot == seats[0].slot
    assert reused.bulletin == UNSEEN
    assert not reused.is_ejected
    assert reused.last_used_at is None


@pytest.mark.parametrize("reason", ["busy", "just left"])
def test_a_slot_is_kept_while_somebody_may_count_on_it(host, seats, reason):
    if reason == "busy":
        seats[1].take()
    host.list(_B)
    host.clock.advance(600 if reason == "busy" else 59)
    for number in range(board_layout.SLOTS):
        host.allotment.hold(number + 1, now=host.clock.monotonic())
    assert host.words[Layout().slot_at(seats[0].slot)] == seats[0].key


def test_an_endpoint_that_comes_back_in_time_has_its_slot_and_its_count_again(host, seats):
    handle = seats[0].take()
    host.list(_B)
    host.list(_A, _B)
    again = host.workers[0].seat(*_A)
    assert (again.slot, again.inflight) == (seats[0].slot, 1)
    seats[0].give_back(handle)
    assert again.inflight == 0


def test_a_server_that_comes_later_goes_on_with_the_slots_as_they_are(host, seats):
    seats[0].take()
    later = Allotment(host.words, Layout(), keep_s=60)
    assert later.traffic(seats[0].key).inflight == 1
    assert later.hold(seats[0].key, now=0) == seats[0].slot


def test_more_endpoints_than_slots_are_named(host):
    keys = range(1, board_layout.SLOTS + 3)
    assert host.allotment.agree(keys, now=0) == list(keys[-3:]), "one is kept for who just left"


def test_an_endpoint_without_a_slot_is_counted_by_its_worker_alone(host):
    one, other = (worker.seat("unlisted", "http://x") for worker in host.workers)
    handle = one.take()
    assert (one.inflight, other.inflight) == (1, 0)
    one.give_back(handle)
    assert one.inflight == 0


def test_an_endpoint_without_requests_says_so_and_a_stranger_says_nothing(host, seats):
    assert host.allotment.traffic(seats[0].key).inflight == 0
    assert host.allotment.traffic(12345) is None


def test_a_worker_alone_reuses_slots_of_endpoints_that_left():
    board = LoadBoard.private(now=FakeClock().monotonic, slots=1)
    busy = board.seat(*_A)
    handle = busy.take()
    board.leave(busy)
    spare = board.seat(*_B)
    assert (spare.inflight, busy.inflight) == (0, 1)
    busy.give_back(handle)
    assert board.seat(*_B).slot == busy.slot


def test_a_board_of_another_layout_is_refused(tmp_path):
    mmapboard.created(board_layout.path(tmp_path), count=64)
    with pytest.raises(Invalid, match="bytes, not"):
        LoadBoard.attached(board_layout.path(tmp_path), row=0, now=FakeClock().monotonic)


def test_the_server_sees_what_all_workers_have_under_way_and_what_is_left_alone(host, seats):
    key = board_layout.key_of(*_A)
    unused = host.allotment.traffic(key)
    assert (unused.inflight, unused.last_used_at, unused.ejected_at) == (0, None, None)
    host.clock.advance(5)
    seats[0].take()
    seats[1].take()
    seats[1].eject(host.clock.monotonic() + 3, is_stalled=True)
    used = host.allotment.traffic(key)
    assert (used.inflight, used.last_used_at) == (2, host.clock.monotonic())
    assert (used.ejected_at, used.is_stalled) == (host.clock.monotonic() + 3, True)
    seats[0].readmit()
    assert host.allotment.traffic(key).ejected_at is None
    assert host.allotment.traffic(board_layout.key_of(*_B)) is None


def test_an_endpoint_that_nobody_used_has_no_last_use_after_a_restart_either(host, seats):
    """Zero would look like an engine that has been idle for years."""
    seats[0].take()
    restarted = Allotment(host.words, Layout(), keep_s=60)
    assert restarted.traffic(board_layout.key_of(*_A)).last_used_at is not None
    fresh = Allotment(mmapboard.in_memory(Layout().words), Layout())
    fresh.agree([board_layout.key_of(*_A)], now=0.0)
    assert fresh.traffic(board_layout.key_of(*_A)).last_used_at is None


def test_what_an_agent_saw_is_seen_by_every_worker(host, seats):
    assert (seats[0].worked_at, seats[0].looked_at) == (None, None)
    key = board_layout.key_of(*_A)
    host.allotment.worked(key, worked_at=None, looked_at=4.0)
    assert [(one.worked_at, one.looked_at) for one in seats] == [(None, 4.0)] * 2
    host.allotment.worked(key, worked_at=3.5, looked_at=8.0)
    assert [(one.worked_at, one.looked_at) for one in seats] == [(3.5, 8.0)] * 2
