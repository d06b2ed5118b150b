"""The gate of one worker alone: what is let in, what is held, what is settled."""

from __future__ import annotations

import pytest

from llmgw.accounting.gate import Gate
from llmgw.accounting.limit_board import LimitBoard
from llmgw.domain.pricing import Price, PriceTable
from llmgw.errors import LimitReached
from tests.fakes.clock import FakeClock
from tests.fakes.principals import principal

PRICED = Price(1000, 1000)
"""A token is a micro-unit."""

AT_A_FULL_MINUTE = 1_800_000_000.0


class Desk:
    """A gate at a full minute, with ``paid`` at a micro-unit a token and ``free`` for nothing."""

    def __init__(self):
        self.clock = FakeClock(wall_s=AT_A_FULL_MINUTE)
        prices = PriceTable({"paid": PRICED, "free": Price()}, default=PRICED)
        self.gate = Gate(LimitBoard.private(), price_of=prices.of, now=self.clock.wall)

    def reserve(self, who, *, model="paid", prompt=0, completion=0):
        return self.gate.reserve(
            who, model, prompt_tokens=prompt, completion_tokens=lambda: completion
        )

    def use(self, who, *, model="paid", prompt=0, completion=0, held=0):
        """A whole request; what it cost."""
        hold = self.reserve(who, model=model, prompt=prompt, completion=held)
        return self.gate.settle(hold, prompt_tokens=prompt, completion_tokens=completion)

    def refused(self, who, **asked):
        """The refusal that it meets."""
        with pytest.raises(LimitReached) as caught:
            self.reserve(who, **asked)
        return caught.value

    def lets_in(self, who, *, times, **asked):
        """How many of so many are let in; each is still under way."""
        count = 0
        for _ in range(times):
            try:
                self.reserve(who, **asked)
            except LimitReached:
                continue
            count += 1
        return count


@pytest.fixture
def desk():
    return Desk()


def test_requests_beyond_rpm_are_refused_and_told_to_come_back(desk):
    who = principal(key_limits={"rpm": 3})
    assert desk.lets_in(who, times=3) == 3
    refusal = desk.refused(who)
    assert (refusal.limit_kind, refusal.scope, refusal.retry_after_s) == ("requests", "key", 1.0)


def test_tokens_are_settled_as_they_were_and_not_as_they_were_estimated(desk):
    who = principal(key_limits={"tpm": 1000})
    desk.use(who, prompt=10, completion=890)
    assert desk.refused(who, prompt=200).limit_kind == "tokens"
    assert desk.lets_in(who, times=1, prompt=100) == 1


def test_prompt_longer_than_tpm_is_told_no_time_to_come_back(desk):
    who = principal(key_limits={"tpm": 1000})
    assert desk.refused(who, prompt=1001).retry_after_s is None


def test_nothing_limits_where_no_level_has_limits(desk):
    who = principal()
    assert desk.lets_in(who, times=50, prompt=10_000) == 50


def test_half_the_limit_passes_after_a_full_burst_just_before_the_minute_turns(desk):
    who = principal(key_limits={"rpm": 60})
    desk.clock.advance(59)
    assert desk.lets_in(who, times=60) == 60
    desk.clock.advance(2)
    assert desk.lets_in(who, times=60) == 1


def test_minutes_that_are_over_do_not_count(desk):
    who = principal(key_limits={"rpm": 2})
    assert desk.lets_in(who, times=3) == 2
    desk.clock.advance(120)
    assert desk.lets_in(who, times=3) == 2


def test_a_hundred_of_five_hundred_pass_a_limit_of_a_hundred(desk):
    assert desk.lets_in(principal(key_limits={"rpm": 100}), times=500) == 100


def test_rates_of_a_team_are_shared_by_its_keys_and_not_by_others(desk):
    limits = {"team_limits": {"rpm": 1}}
    assert desk.lets_in(principal("k1", **limits), times=1) == 1
    assert desk.lets_in(principal("k2", **limits), times=1) == 0
    assert desk.lets_in(principal("k3", team="t2", **limits), times=1) == 1
    assert desk.lets_in(principal("k4", key_limits={"rpm": 1}), times=2) == 1


@pytest.mark.parametrize(
    ("org", "team"), [({"rpm": 1}, {"rpm": 100}), ({"rpm": 100}, {"rpm": 1})], ids=["top", "below"]
)
def test_refusal_by_one_level_leaves_the_others_as_they_were(desk, org, team):
    who = principal(org_limits=org, team_limits=team)
    assert desk.lets_in(who, times=2) == 1
    other = principal("k9", team="t9", org_limits={"rpm": 2}, team_limits={"rpm": 2})
    rest = desk.lets_in(other, times=5)
    assert rest == 1, "one of two is used at the top, and the refusal took nothing"


def test_request_refused_for_its_concurrency_burns_no_rate(desk):
    who = principal(key_limits={"rpm": 2, "concurrency": 1})
    first = desk.reserve(who)
    assert desk.lets_in(who, times=20) == 0
    assert desk.refused(who).limit_kind == "concurrency"
    desk.gate.settle(first, prompt_tokens=0, completion_tokens=0)
    assert desk.lets_in(who, times=1) == 1


def test_spent_budget_refuses_what_costs_and_serves_what_is_free(desk):
    who = principal(key_limits={"budget": 100})
    assert desk.use(who, prompt=60, completion=40) == 100
    refusal = desk.refused(who)
    assert (refusal.limit_kind, refusal.retry_after_s) == ("budget", None)
    assert desk.use(who, model="free", prompt=60, completion=40) == 0


def test_budget_of_nothing_refuses_what_costs_from_the_first_request(desk):
    who = principal(key_limits={"budget": 0})
    assert desk.refused(who).limit_kind == "budget"
    assert desk.lets_in(who, times=1, model="free") == 1


def test_request_that_crosses_a_budget_is_served_and_the_next_is_not(desk):
    who = principal(team_limits={"budget": 100})
    assert desk.use(who, prompt=90, completion=90) == 180
    assert desk.refused(who).scope == "team"


def test_two_hundred_at_once_overshoot_a_budget_for_ten_by_one_reservation_at_most(desk):
    who = principal(project_limits={"budget": 1000})
    assert desk.lets_in(who, times=200, prompt=50, completion=50) == 10
    other = principal("k2", project="p2", project_limits={"budget": 950})
    assert desk.lets_in(other, times=200, prompt=50, completion=50) == 10


def test_what_was_held_and_not_used_is_free_again(desk):
    who = principal(key_limits={"budget": 1000})
    hold = desk.reserve(who, prompt=10, completion=2000)
    assert desk.refused(who).limit_kind == "budget"
    assert desk.gate.settle(hold, prompt_tokens=10, completion_tokens=20) == 30
    assert desk.lets_in(who, times=1, prompt=10, completion=20) == 1


def test_cancelled_request_gives_back_all_of_it(desk):
    limits = {"rpm": 1, "tpm": 100, "budget": 100, "concurrency": 1}
    who = principal(org_limits=limits, team_limits=limits, project_limits=limits, key_limits=limits)
    for _ in range(5):
        desk.gate.cancel(desk.reserve(who, prompt=100, completion=100))
    assert desk.lets_in(who, times=1, prompt=100) == 1


def test_request_cancelled_in_the_next_minute_is_taken_out_of_its_own(desk):
    who = principal(key_limits={"rpm": 2})
    hold = desk.reserve(who)
    desk.clock.advance(60)
    desk.gate.cancel(hold)
    assert desk.lets_in(who, times=3) == 2


@pytest.mark.parametrize("again", ["settle", "cancel"])
def test_what_is_settled_once_is_settled(desk, again):
    who = principal(key_limits={"budget": 1000, "concurrency": 2})
    other = desk.reserve(who)
    hold = desk.reserve(who, prompt=1)
    desk.gate.settle(hold, prompt_tokens=1, completion_tokens=1)
    if again == "settle":
        desk.gate.settle(hold, prompt_tokens=500, completion_tokens=500)
    else:
        desk.gate.cancel(hold)
    assert desk.lets_in(who, times=5) == 1, "the other is still under way"
    desk.gate.cancel(other)
    assert desk.gate.holds == 1


def test_team_budget_is_one_pool_of_its_members(desk):
    limits = {"team_limits": {"budget": 100}}
    desk.use(principal("k1", **limits), prompt=100)
    assert desk.refused(principal("k2", **limits)).limit_kind == "budget"


def test_four_teams_share_what_their_organisation_has(desk):
    def member(n):
        limits = {"org_limits": {"budget": 2000}, "team_limits": {"budget": 2000}}
        return principal(f"k{n}", team=f"t{n}", **limits)

    assert [desk.use(member(n), prompt=800) for n in range(3)] == [800, 800, 800]
    assert desk.refused(member(3)).scope == "org"


def test_narrow_team_budget_binds_below_a_wide_one(desk):
    who = principal(org_limits={"budget": 10_000}, team_limits={"budget": 100})
    desk.use(who, prompt=100)
    assert desk.refused(who).scope == "team"


def test_budget_of_the_team_refuses_before_the_rate_of_the_key(desk):
    limits = {"team_limits": {"budget": 100}, "key_limits": {"rpm": 1}}
    desk.use(principal("k1", **limits), prompt=100)
    other = principal("k2", **limits)
    desk.reserve(other, model="free")
    assert desk.refused(other).limit_kind == "budget"


def test_day_begins_anew_and_its_month_goes_on(desk):
    who = principal(
        org_limits={"budget": 1000, "period": "month"}, key_limits={"budget": 100, "period": "day"}
    )
    desk.use(who, prompt=100)
    assert desk.refused(who).scope == "key"
    desk.clock.advance(24 * 3600)
    desk.use(who, prompt=950)
    assert desk.refused(who).scope == "org"


def test_month_begins_anew_with_its_first_minute(desk):
    who = principal(key_limits={"budget": 100, "period": "month"})
    desk.clock.jump(1_801_439_940.0)  # 2027-01-31T23:59
    desk.use(who, prompt=100)
    assert desk.refused(who).limit_kind == "budget"
    desk.clock.advance(120)
    assert desk.lets_in(who, times=1) == 1


def test_lifetime_budget_never_begins_anew(desk):
    who = principal(key_limits={"budget": 100})
    desk.use(who, prompt=100)
    desk.clock.advance(800 * 24 * 3600)
    assert desk.refused(who).limit_kind == "budget"


def test_another_model_takes_over_what_is_held_at_its_own_price(desk):
    who = principal(key_limits={"budget": 100, "rpm": 1, "concurrency": 1})
    hold = desk.reserve(who, prompt=1000)
    hold = desk.gate.move(hold, "free")
    assert desk.gate.settle(hold, prompt_tokens=1000, completion_tokens=1000) == 0
    desk.clock.advance(120)
    assert desk.lets_in(who, times=1, prompt=10) == 1


def test_move_to_a_model_beyond_the_budget_changes_nothing(desk):
    who = principal(key_limits={"budget": 100, "concurrency": 3})
    hold = desk.reserve(who, model="free", prompt=10)
    desk.reserve(who, prompt=100)
    with pytest.raises(LimitReached):
        desk.gate.move(hold, "paid")
    desk.gate.settle(hold, prompt_tokens=10, completion_tokens=0)
    assert desk.gate.holds == 1


def test_limits_that_were_edited_hold_with_the_next_request(desk):
    assert desk.lets_in(principal(key_limits={"rpm": 2}), times=9) == 2
    assert desk.lets_in(principal(key_limits={"rpm": 3}), times=9) == 1
    assert desk.lets_in(principal(), times=9) == 9


def test_client_is_told_what_is_left_of_its_tightest_rates(desk):
    who = principal(team_limits={"rpm": 10, "tpm": 1000}, key_limits={"rpm": 100})
    told = desk.reserve(who, prompt=400).told.decode()
    assert "x-ratelimit-limit-requests: 10\r\nx-ratelimit-remaining-requests: 9\r\n" in told
    assert "x-ratelimit-limit-tokens: 1000\r\nx-ratelimit-remaining-tokens: 600\r\n" in told
    assert desk.reserve(principal("k2")).told == b""


def test_who_is_refused_is_told_what_is_left_of_the_tightest_rates(desk):
    who = principal(team_limits={"rpm": 2, "tpm": 1000}, key_limits={"rpm": 100, "concurrency": 2})
    desk.reserve(who, prompt=400)
    desk.reserve(who, prompt=400)
    assert desk.refused(who, prompt=10).limit_kind == "concurrency"
    told = desk.gate.told(who).decode()
    assert "x-ratelimit-limit-requests: 2\r\nx-ratelimit-remaining-requests: 0\r\n" in told
    assert "x-ratelimit-limit-tokens: 1000\r\nx-ratelimit-remaining-tokens: 200\r\n" in told
    assert desk.gate.told(principal("k2", key_limits={"budget": 1})) == b""


def test_nothing_less_than_nothing_is_left(desk):
    desk.use(principal(key_limits={"tpm": 1000}), prompt=10, completion=2000)
    told = desk.gate.told(principal(key_limits={"tpm": 1000})).decode()
    assert "x-ratelimit-remaining-tokens: 0\r\n" in told
    assert "requests" not in told
