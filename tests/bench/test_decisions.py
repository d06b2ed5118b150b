"""What a routing decision costs with everything on, against the bars: `pytest -s` shows the table.

A decision here is all that scheduling does for one request: the wish with session and prompt head,
the pick over live figures, the seat taken and given back, the head learned.  It is CPU time of the
thread, and held as a ratio to reading the same request with the standard library's JSON parser.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import time

import pytest

from llmgw.config.carrying import PrefixSettings, RouterSettings
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.gateway import costs, picking
from llmgw.gateway.affinity import Affinity
from llmgw.gateway.breaker import BreakerRules
from llmgw.gateway.costs import Standing
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.exchange import BodyBudget, Exchange

MODEL = RoutedModel(name="m", state=ModelState.READY)
DECISIONS = 4000
RATE = 500
"""Requests a second that the bars speak of."""


class Scheduler:
    """The rooms that decide, with as many endpoints as asked for, each somewhat loaded."""

    def __init__(self, endpoints):
        draw = random.Random(endpoints)
        settings = RouterSettings(prefix=PrefixSettings(enabled=True))
        self.affinity = Affinity(settings)
        self.registry = Registry(
            rules=BreakerRules(), dial_timeout_s=1.0, now=itertools.count().__next__
        )
        self.registry.replace(
            RouteTable(
                number=1,
                endpoints=tuple(
                    Endpoint(
                        f"e{n:03}", f"http://127.0.0.1:{2000 + n}", ("m",), context_length=8192
                    )
                    for n in range(endpoints)
                ),
                models={"m": MODEL},
                canonical={"m": "m"},
            )
        )
        self.underway = []
        for live in self.registry.owners["m"]:
            running = draw.randrange(6)
            live.standing = Standing(
                seen=running, capacity=16, share=16, kv=draw.random(), drain=2.0, is_stale=False
            )
            live.curves = costs.curves(live.standing)
            for _ in range(running):
                live.seat.take()
        self.systems = ["".join(draw.choices("abcdefgh ", k=700)) for _ in range(64)]
        self.draw = draw

    def request(self, number):
        exchange = Exchange(BodyBudget(2**30), 0.0)
        exchange.path = b"/v1/chat/completions"
        exchange.request_key = b"req-%d" % number
        exchange.headers = {b"x-session-id": b"session-%d" % (number % 200)} if number % 2 else {}
        said = [
            {"role": "system", "content": self.draw.choice(self.systems)},
            {"role": "user", "content": f"Question {number}: " + "why? " * 40},
        ]
        exchange.body = json.dumps({"model": "m", "messages": said, "max_tokens": 64}).encode()
        return exchange

    def decide(self, exchange):
        now = 1.0
        wish = self.affinity.wish(exchange, MODEL, now)
        picked = picking.pick(self.registry.owners["m"], tried=(), now=now, wish=wish)
        self.affinity.count(picked.following)
        live = picked.choice
        handle = live.seat.take()
        self.affinity.learn(wish, live.incarnation, now)
        live.seat.give_back(handle)


def measured_us(work, things):
    """CPU time of each, in microseconds, lowest first."""
    clock, times = time.thread_time_ns, []
    for one in things:
        began = clock()
        work(one)
        times.append((clock() - began) / 1000)
    return sorted(times)


@pytest.mark.parametrize("endpoints", [1, 8, 10, 16, 64])
def test_decision_costs_little_however_many_endpoints_there_are(endpoints):
    scheduler = Scheduler(endpoints)
    requests = [scheduler.request(number) for number in range(DECISIONS)]
    measured_us(scheduler.decide, requests[:500])
    times = measured_us(scheduler.decide, requests)
    parse_us = statistics.median(measured_us(lambda one: json.loads(one.body), requests))
    p50, p95, p99 = (times[int(DECISIONS * share)] for share in (0.5, 0.95, 0.99))
    mean = statistics.fmean(times)
    sys.stdout.write(
        f"\n{endpoints:3} endpoints: p50 {p50:.1f} us, p95 {p95:.1f} us, p99 {p99:.1f} us; "
        f"at {RATE}/s {mean * RATE / 1e4:.1f} % of a core; p95 {p95 / parse_us:.1f} x a parse\n"
    )
    assert p95 < parse_us * 60
    assert sum(scheduler.affinity.following.values()) == DECISIONS + 500
