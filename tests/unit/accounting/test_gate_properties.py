"""Whatever requests do, in any order: no limit is passed by more than one, and none leaks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.accounting.gate import Gate
from llmgw.accounting.limit_board import LimitBoard
from llmgw.domain.pricing import Price
from llmgw.errors import LimitReached
from tests.fakes.clock import FakeClock
from tests.fakes.principals import principal

PRICED = Price(1000, 1000)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "rpm": st.integers(1, 8),
        "tpm": st.integers(1, 300),
        "budget": st.integers(0, 500),
        "concurrency": st.integers(1, 4),
    },
)
TOKENS = st.integers(0, 120)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 2), TOKENS, TOKENS),
        st.tuples(st.just("settle"), st.integers(0, 9), TOKENS, TOKENS),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 20.0, 61.0, 86_400.0])),
    ),
    max_size=40,
)


class Run:
    """Requests of three keys of two teams, and what each place has of them."""

    def __init__(self, org, team, key):
        self.clock = FakeClock()
        self.gate = Gate(
            LimitBoard.private(slots=16), price_of=lambda _: PRICED, now=self.clock.wall
        )
        self.limits = {"org": org, "team": team, "key": key}
        self.keys = [
            principal(f"k{n}", team=f"t{n % 2}", org_limits=org, team_limits=team, key_limits=key)
            for n in range(3)
        ]
        self.open = []
        self.spent = dict.fromkeys(self.counters(), 0)

    def counters(self):
        return {level.counter for key in self.keys for level in key.levels}

    def ask(self, number, prompt, most):
        key = self.keys[number]
        try:
            hold = self.gate.reserve(key, "m", prompt_tokens=prompt, completion_tokens=lambda: most)
        except LimitReached:
            return
        self.open.append((hold, key, prompt + most))

    def settle(self, number, prompt, completion):
        if self.open:
            hold, key, held = self.open.pop(number % len(self.open))
            # An engine reads what it was sent and writes no more than it was asked for.
            used = min(prompt + completion, held)
            self.gate.settle(hold, prompt_tokens=used, completion_tokens=0)
            for level in key.levels:
                self.spent[level.counter] += used

    def cancel(self, number):
        if self.open:
            self.gate.cancel(self.open.pop(number % len(self.open))[0])

    def wait(self, duration_s):
        self.clock.advance(duration_s)

    def check(self):
        for scope, limits in self.limits.items():
            for counter in (name for name in self.counters() if name.startswith(f"{scope}:")):
                here = [(held, key) for _, key, held in self.open if _has(key, counter)]
                if (most := limits.get("concurrency")) is not None:
                    assert len(here) <= most
                if (budget := limits.get("budget")) is not None:
                    reserved = [held for held, _ in here]
                    overshoot = self.spent[counter] + sum(reserved) - budget
                    assert overshoot <= max(reserved, default=120 * 2)


def _has(key, counter):
    return any(level.counter == counter for level in key.levels)


@settings(max_examples=60, deadline=None)
@given(org=LIMITS, team=LIMITS, key=LIMITS, steps=STEPS)
def test_no_limit_is_passed_by_more_than_one_reservation_and_nothing_is_left(org, team, key, steps):
    run = Run(org, team, key)
    for name, *given_ in steps:
        getattr(run, name)(*given_)
        run.check()
    while run.open:
        run.cancel(0)
    assert run.gate.holds == 0
    for place in run.counters():
        counter = run.gate._board._counters.get(place)
        if counter is not None:
            assert (counter.running, counter.reserved) == (0, 0)
            assert counter.spent("lifetime", run.gate._at) == run.spent[place]
