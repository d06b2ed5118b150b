"""Let requests in as the limits above their keys allow, and count what they use in the end.

Fits ``gateway.ports.LimitGate``; one a worker.  All limits of all levels are looked at before any
is charged, so a refusal costs nothing.  With other workers about, what was taken is looked at once
more with theirs: who finds too much takes back, tries again alone, and only then refuses.
Nothing here waits for a disk, a database or another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from llmgw.accounting import rates_left
from llmgw.accounting.counters import Counter, Moment
from llmgw.accounting.limit_board import LimitBoard
from llmgw.accounting.rates_left import Left
from llmgw.domain import limits
from llmgw.domain.limits import LimitKind, Refusal
from llmgw.domain.pricing import Price, cost
from llmgw.domain.principals import Level, Principal

RETRY_AFTER_S: Final = 1.0
"""When to come back where a rate or a place is used up."""

_MOST_KNOWN: Final = 16_384


class Pool(NamedTuple):
    """The limits of one level, and what is used of them."""

    level: Level
    counter: Counter
    rpm: int | None
    tpm: int | None
    budget: int | None
    period: str
    concurrency: int | None


class Plan(NamedTuple):
    """The levels of a principal that limit something."""

    principal: Principal
    pools: tuple[Pool, ...]
    counters: tuple[str, ...]
    has_rates: bool
    has_budgets: bool
    has_places: bool


class Hold:
    """Fits ``gateway.grants.Hold``; ``micros`` is held in each pool with a budget."""

    __slots__ = (
        "completion_tokens",
        "entered_minute",
        "is_over",
        "left",
        "micros",
        "plan",
        "price",
        "prompt_tokens",
    )

    def __init__(
        self, plan: Plan, price: Price, *, prompt_tokens: int, completion_tokens: int
    ) -> None:
        self.plan = plan
        self.price = price
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        is_charged = plan.has_budgets and not price.is_free
        self.micros = cost(price, prompt_tokens, completion_tokens) if is_charged else 0
        self.entered_minute = 0
        self.is_over = False
        self.left: Left | None = None

    @property
    def counters(self) -> tuple[str, ...]:
        """See ``gateway.grants.Hold``."""
        return self.plan.counters

    @property
    def told(self) -> bytes:
        """See ``gateway.grants.Hold``; in the words of OpenAI."""
        return b"" if self.left is None else self.left.told()


class Gate:
    """See the module."""

    def __init__(
        self,
        board: LimitBoard,
        *,
        price_of: Callable[[str], Price],
        now: Callable[[], float],
    ) -> None:
        """``now`` is in seconds since 1970, so that all workers mean the same minute by it."""
        self._board = board
        self._price_of = price_of
        self._now = now
        self._at = Moment(now())
        self._plans: dict[str, Plan] = {}
        self.holds = 0

    def reserve(
        self,
        principal: Principal,
        model: str,
        *,
        prompt_tokens: int,
        completion_tokens: Callable[[], int],
    ) -> Hold:
        """See ``gateway.ports.LimitGate``."""
        plan = self._plan_of(principal)
        # Also for a model that is free: one that is not may take it over.
        most = completion_tokens() if plan.has_budgets else 0
        price = self._price_of(model)
        hold = Hold(plan, price, prompt_tokens=prompt_tokens, completion_tokens=most)
        if plan.pools:
            self._at.move_to(self._now())
            self._take(hold)
        self.holds += 1
        return hold

    def told(self, principal: Principal) -> bytes:
        """See ``gateway.ports.LimitGate``."""
        plan = self._plan_of(principal)
        if not plan.has_rates:
            return b""
        self._at.move_to(self._now())
        return self._left_now(plan).told()

    def move(self, hold: Hold, model: str) -> Hold:
        """See ``gateway.ports.LimitGate``: rates and places stay taken, money may not."""
        price = self._price_of(model)
        moved = Hold(
            hold.plan,
            price,
            prompt_tokens=hold.prompt_tokens,
            completion_tokens=hold.completion_tokens,
        )
        self._at.move_to(self._now())
        self._hold_money(hold, -1)
        refusal = None if price.is_free else self._spent_budget(moved, held_here=0)
        if refusal is not None:
            self._hold_money(hold, 1)
            raise limits.reached(refusal)
        self._hold_money(moved, 1)
        moved.entered_minute, moved.left = hold.entered_minute, hold.left
        hold.is_over = True
        return moved

    def settle(self, hold: Hold, *, prompt_tokens: int, completion_tokens: int) -> int:
        """See ``gateway.ports.LimitGate``; a second time changes nothing."""
        spent = 0
        if not hold.price.is_free:
            spent = cost(hold.price, prompt_tokens, completion_tokens)
        if hold.is_over:
            return spent
        hold.is_over = True
        self.holds -= 1
        pools = hold.plan.pools
        if pools:
            at = self._at
            at.move_to(self._now())
            surplus = prompt_tokens + completion_tokens - hold.prompt_tokens
            for pool in pools:
                counter = pool.counter
                if spent:
                    counter.spend(spent, at)  # before less is held: it is never nowhere
                counter.leave(
                    at,
                    tokens=0 if pool.tpm is None else surplus,
                    micros=0 if pool.budget is None else hold.micros,
                )
        return spent

    def cancel(self, hold: Hold) -> None:
        """See ``gateway.ports.LimitGate``; a second time changes nothing."""
        if hold.is_over:
            return
        hold.is_over = True
        self.holds -= 1
        self._at.move_to(self._now())
        self._drop(hold)

    def look(self) -> None:
        """See who else takes from the same limits; called a few times a second."""
        self._board.look(self._now())

    def close(self) -> None:
        """Let go of the board."""
        self._board.close()

    def _plan_of(self, principal: Principal) -> Plan:
        plan = self._plans.get(principal.key_id)
        if plan is None or plan.principal is not principal:
            plan = self._planned(principal)
        return plan

    def _planned(self, principal: Principal) -> Plan:
        pools = tuple(
            Pool(
                level=level,
                counter=self._board.counter(level.counter),
                rpm=level.rpm,
                tpm=level.tpm,
                budget=level.budget,
                period=level.period,
                concurrency=level.concurrency,
            )
            for level in principal.levels
            if has_counter(level)
        )
        plan = Plan(
            principal,
            pools,
            counters=tuple(pool.counter.name for pool in pools),
            has_rates=any(one.rpm is not None or one.tpm is not None for one in pools),
            has_budgets=any(one.budget is not None for one in pools),
            has_places=any(one.concurrency is not None for one in pools),
        )
        if len(self._plans) >= _MOST_KNOWN:
            self._plans.clear()
        self._plans[principal.key_id] = plan
        return plan

    def _take(self, hold: Hold) -> None:
        if self._board.has_news:
            self.look()
        refusal = self._objection(hold, is_held=False)
        if refusal is not None:
            raise limits.reached(refusal)
        self._enter(hold)
        if not self._board.has_others or self._objection(hold, is_held=True) is None:
            return
        self._drop(hold)
        with self._board.alone():
            self._take_alone(hold)

    def _take_alone(self, hold: Hold) -> None:
        """Once more, while others that came too close wait for their turn."""
        refusal = self._objection(hold, is_held=False)
        if refusal is None:
            self._enter(hold)
            refusal = self._objection(hold, is_held=True)
            if refusal is None:
                return
            self._drop(hold)
        raise limits.reached(refusal)

    def _enter(self, hold: Hold) -> None:
        at = self._at
        hold.entered_minute = at.minute
        for pool in hold.plan.pools:
            pool.counter.enter(
                at,
                tokens=0 if pool.tpm is None else hold.prompt_tokens,
                micros=0 if pool.budget is None else hold.micros,
            )

    def _drop(self, hold: Hold) -> None:
        at = self._at
        for pool in hold.plan.pools:
            pool.counter.take_back(at, hold.entered_minute)
            pool.counter.leave(
                at,
                tokens=0 if pool.tpm is None else -hold.prompt_tokens,
                micros=0 if pool.budget is None else hold.micros,
            )

    def _hold_money(self, hold: Hold, sign: int) -> None:
        if hold.micros:
            for pool in hold.plan.pools:
                if pool.budget is not None:
                    pool.counter.hold(sign * hold.micros)

    def _objection(self, hold: Hold, *, is_held: bool) -> Refusal | None:
        """The limit that lets it not in, the one first that waiting does not cure.

        ``is_held`` says that the counters have it in them already.
        """
        plan, refusal = hold.plan, None
        if plan.has_budgets and not hold.price.is_free:
            refusal = self._spent_budget(hold, held_here=hold.micros if is_held else 0)
        if refusal is None and plan.has_places:
            refusal = self._no_place(plan, held_here=1 if is_held else 0)
        if refusal is None and plan.has_rates:
            refusal = self._used_rate(hold, is_held=is_held)
        return refusal

    def _used_rate(self, hold: Hold, *, is_held: bool) -> Refusal | None:
        at, tokens, one = self._at, hold.prompt_tokens, 1 if is_held else 0
        requests_limit: int | None = None
        tokens_limit: int | None = None
        requests_left = tokens_left = 0.0
        for pool in hold.plan.pools:
            if pool.rpm is not None:
                left = pool.rpm - pool.counter.requests(at) + one - 1
                if left < 0:
                    return _refused(pool, "requests", pool.rpm, pool.rpm - left - 1)
                if requests_limit is None or left < requests_left:
                    requests_limit, requests_left = pool.rpm, left
            if pool.tpm is not None:
                left = pool.tpm - pool.counter.tokens(at) + one * tokens - tokens
                if left < 0:
                    waits = None if tokens > pool.tpm else RETRY_AFTER_S
                    used = pool.tpm - left - tokens
                    return _refused(pool, "tokens", pool.tpm, used, retry_after_s=waits)
                if tokens_limit is None or left < tokens_left:
                    tokens_limit, tokens_left = pool.tpm, left
        hold.left = Left(
            requests_limit,
            int(requests_left),
            tokens_limit,
            int(tokens_left),
            rates_left.reset_s(at),
        )
        return None

    def _left_now(self, plan: Plan) -> Left:
        """What another request would find, of the rates that leave least."""
        at = self._at
        requests = [
            (p.rpm - p.counter.requests(at), p.rpm) for p in plan.pools if p.rpm is not None
        ]
        tokens = [(p.tpm - p.counter.tokens(at), p.tpm) for p in plan.pools if p.tpm is not None]
        requests_left, requests_limit = min(requests, default=(0, None))
        tokens_left, tokens_limit = min(tokens, default=(0, None))
        return Left(
            requests_limit,
            max(int(requests_left), 0),
            tokens_limit,
            max(int(tokens_left), 0),
            rates_left.reset_s(at),
        )

    @staticmethod
    def _no_place(plan: Plan, *, held_here: int) -> Refusal | None:
        for pool in plan.pools:
            if pool.concurrency is not None:
                used = pool.counter.under_way() - held_here
                if used >= pool.concurrency:
                    return _refused(pool, "concurrency", pool.concurrency, used)
        return None

    def _spent_budget(self, hold: Hold, *, held_here: int) -> Refusal | None:
        at = self._at
        for pool in hold.plan.pools:
            if pool.budget is not None:
                counter = pool.counter
                used = counter.spent(pool.period, at) + counter.held() - held_here
                if used >= pool.budget:
                    return _refused(pool, "budget", pool.budget, used, retry_after_s=None)
        return None


def has_counter(level: Level) -> bool:
    """Whether anything of a level is counted; a list of models is not."""
    counted = (level.rpm, level.tpm, level.budget, level.concurrency)
    return any(limit is not None for limit in counted)


def _refused(
    pool: Pool,
    kind: LimitKind,
    limit: int,
    used: float,
    *,
    retry_after_s: float | None = RETRY_AFTER_S,
) -> Refusal:
    return Refusal(
        kind=kind,
        scope=pool.level.scope,
        scope_id=pool.level.scope_id,
        limit=limit,
        used=int(used),
        retry_after_s=retry_after_s,
    )
