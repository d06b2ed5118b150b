"""A fleet of engines with small prompt caches, under a virtual clock, behind the real picking.

Each engine runs a few requests at a time, in the order they came; reading a prompt whose beginning
it has cached is quick, any other takes long and pushes the least recently used beginning out.
Every request is told to the real prefix tree when its answer begins, as ``dispatch`` does it.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
from collections import OrderedDict, deque
from dataclasses import dataclass

from llmgw.gateway import picking
from llmgw.gateway.prefix import Following, PrefixRules, PrefixTree
from llmgw.gateway.scores import Wish
from tests.fakes.choices import Engine, standing

_SCRAPE_EVERY_S = 2.0
_MODEL = b"m"


@dataclass(frozen=True)
class Shape:
    """The fleet and its traffic; a ``hot_share`` of all requests begins with prompt 0."""

    engines: int = 8
    slots: int = 8
    cached_prompts: int = 14
    prompts: int = 64
    requests: int = 12_000
    requests_per_s: float = 28.0
    cold_read_s: float = 1.0
    warm_read_s: float = 0.1
    write_s: float = 0.5
    hot_share: float = 0.0
    seed: int = 1


@dataclass(frozen=True)
class Result:
    hit_share: float
    load_variation: float
    ttft_p50_s: float
    ttft_p99_s: float
    following: dict


class _CachedEngine(Engine):
    """An engine at work: what runs, what waits, what is cached."""

    def begin(self, shape):
        self.shape = shape
        self.running = 0
        self.most_running = 1
        self.waiting = deque()
        self.cached = OrderedDict()
        self.served = 0

    def reads_warm(self, prompt):
        is_warm = prompt in self.cached
        self.cached[prompt] = None
        self.cached.move_to_end(prompt)
        if len(self.cached) > self.shape.cached_prompts:
            self.cached.popitem(last=False)
        return is_warm

    def scrape(self):
        self.reserved = 0
        self.most_running = max(self.most_running, self.running)
        capacity = float(max(self.most_running, 8))
        self.stand(
            standing(
                seen=float(self.running + len(self.waiting)),
                waiting=float(len(self.waiting)),
                capacity=capacity,
                share=capacity,
            )
        )


class _Traffic:
    """One run of all requests; ``choose`` takes the request's number and head."""

    def __init__(self, shape, policy):
        self.shape = shape
        self.policy = policy
        self.tree = PrefixTree(PrefixRules())
        self.engines = [_CachedEngine(f"e{n}") for n in range(shape.engines)]
        for engine in self.engines:
            engine.begin(shape)
        self.draw = random.Random(shape.seed)
        self.heads = [self.draw.randbytes(1536) for _ in range(shape.prompts)]
        self.following = dict.fromkeys(Following, 0)
        self.events = []
        self.order = itertools.count()
        self.ttfts = []
        self.hits = 0
        self.loads = [[] for _ in self.engines]

    def run(self):
        at = 0.0
        for number in range(self.shape.requests):
            at += self.draw.expovariate(self.shape.requests_per_s)
            self.put(at, self.arrive, number)
        self.put(0.0, self.scrape)
        while self.events:
            now, _, what, args = heapq.heappop(self.events)
            what(now, *args)
        return self.result()

    def put(self, at, what, *args):
        heapq.heappush(self.events, (at, next(self.order), what, args))

    def scrape(self, now):
        for engine, loads in zip(self.engines, self.loads, strict=True):
            engine.scrape()
            loads.append(engine.inflight)
        if self.events:
            self.put(now + _SCRAPE_EVERY_S, self.scrape)

    def arrive(self, now, number):
        shape = self.shape
        is_hot = self.draw.random() < shape.hot_share
        prompt = 0 if is_hot else self.draw.randrange(shape.prompts)
        head = self.heads[prompt] + b"%0512d" % number
        engine = self.policy(self, number, head, now)
        engine.inflight += 1
        engine.reserved += 1
        engine.waiting.append((now, prompt, head))
        self.go_on(now, engine)

    def go_on(self, now, engine):
        shape = self.shape
        while engine.waiting and engine.running < shape.slots:
            came_at, prompt, head = engine.waiting.popleft()
            engine.running += 1
            is_warm = engine.reads_warm(prompt)
            self.hits += is_warm
            first_at = now + (shape.warm_read_s if is_warm else shape.cold_read_s)
            self.put(first_at, self.commit, engine, came_at, head)
            self.put(first_at + shape.write_s, self.end, engine)

    def commit(self, now, engine, came_at, head):
        self.ttfts.append(now - came_at)
        self.tree.insert(_MODEL, head, incarnation=engine.incarnation, now=now)

    def end(self, now, engine):
        engine.running -= 1
        engine.inflight -= 1
        engine.served += 1
        self.go_on(now, engine)

    def result(self):
        means = [statistics.fmean(loads) for loads in self.loads]
        ttfts = sorted(self.ttfts)
        return Result(
            hit_share=self.hits / len(ttfts),
            load_variation=statistics.pstdev(means) / statistics.fmean(means),
            ttft_p50_s=ttfts[len(ttfts) // 2],
            ttft_p99_s=ttfts[math.ceil(len(ttfts) * 0.99) - 1],
            following={name.value: count for name, count in self.following.items()},
        )


def round_robin(traffic, number, _head, _now):
    return traffic.engines[number % len(traffic.engines)]


def least_load(traffic, number, _head, now):
    wish = Wish(b"req-%d" % number)
    return picking.pick(traffic.engines, tried=(), now=now, wish=wish).choice


def prefix_affinity(traffic, number, head, now):
    wish = Wish(head[:256])
    wish.trail = traffic.tree.trail(_MODEL, head, now)
    picked = picking.pick(traffic.engines, tried=(), now=now, wish=wish)
    traffic.following[picked.following] += 1
    return picked.choice


def blind_affinity(traffic, _number, head, now):
    """Whoever has it cached, whatever its load."""
    trail = traffic.tree.trail(_MODEL, head, now)
    _, holders = trail.longest_of([one.incarnation for one in traffic.engines])
    return traffic.engines[holders[0] if holders else 0]


def play(policy, shape):
    """All requests of ``shape``, sent where ``policy`` says."""
    return _Traffic(shape, policy).run()
