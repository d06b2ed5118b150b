"""Remember which endpoints lately answered conversations that began alike.

``affinity`` looks a conversation's head up before the first attempt and has it inserted once an
engine has committed; ``picking`` weighs what was found.  A compressed radix tree over blocks of
bytes, one a worker: workers do not share it, as they choose alike in other ways.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

BLOCK_BYTES: Final = 32
"""Heads are compared in whole blocks."""

_FRESH_PART: Final = 0.01
"""Of the time that a mark is remembered: so long the same again teaches nothing."""

_MANY_MARKS: Final = 16
_EXPIRED_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class PrefixRules:
    """When a match is worth following, and for how long it is remembered."""

    min_match_bytes: int = 64
    match_ratio: float = 0.3
    balance_abs: float = 8.0
    balance_rel: float = 1.5
    ttl_s: float = 600.0
    max_nodes: int = 100_000


class Following(enum.StrEnum):
    """What became of the wish to follow a cached prefix; each request that had it counts once."""

    CACHE_HIT = "cache_hit"
    LOAD_BALANCE_OVERRIDE = "load_balance_override"
    CACHE_MISS_MIN_LOAD = "cache_miss_min_load"
    NO_PREFIX = "no_prefix"
    """The prompt is too short to share anything."""
    SESSION_HOME = "session_home"
    """The home of the request's session is elsewhere, and goes before."""


class Trail:
    """What the tree knows of one head: the marks at each length of it, the longest last."""

    __slots__ = ("_expired_at", "_rules", "_steps", "head", "model")

    def __init__(
        self,
        model: bytes,
        head: bytes,
        *,
        steps: list[tuple[int, dict[int, float]]],
        rules: PrefixRules,
        now: float,
    ) -> None:
        self.model = model
        self.head = head
        self._steps = steps
        self._rules = rules
        self._expired_at = now - rules.ttl_s

    def longest_of(self, incarnations: list[int]) -> tuple[float, list[int]]:
        """The share of the head that some of the given endpoints have, and the indices of those.

        0 and none where no match is long enough.
        """
        rules, total = self._rules, len(self.head)
        least = max(rules.min_match_bytes, rules.match_ratio * total)
        for matched, marks in reversed(self._steps):
            if matched < least:
                break
            expired_at = self._expired_at
            holders = [
                index
                for index, one in enumerate(incarnations)
                if (used_at := marks.get(one)) is not None and used_at > expired_at
            ]
            if holders:
                return matched / total, holders
        return 0.0, []

    def is_known_of(self, incarnation: int, *, now: float) -> bool:
        """Whether the endpoint was seen just now to take all of this head in."""
        if not self._steps:
            return False
        matched, marks = self._steps[-1]
        used_at = marks.get(incarnation)
        is_whole = len(self.head) - matched < BLOCK_BYTES
        return is_whole and used_at is not None and now - used_at < self._rules.ttl_s * _FRESH_PART

    def is_given_up_at(self, load: float, *, least_load: float) -> bool:
        """Whether a holder's load is so far above the least that its cache is not worth it."""
        rules = self._rules
        return load - least_load > rules.balance_abs and load > rules.balance_rel * least_load

    def outcome(
        self, chosen: int, *, holders: Collection[int], followed: Collection[int], home: int
    ) -> Following:
        """What to count; all four are indices: of holders, and of those that were worth it."""
        if len(self.head) < self._rules.min_match_bytes:
            return Following.NO_PREFIX
        if not holders:
            return Following.CACHE_MISS_MIN_LOAD
        if chosen in followed:
            return Following.CACHE_HIT
        if chosen == home:
            return Following.SESSION_HOME
        return Following.LOAD_BALANCE_OVERRIDE


class _Node:
    """A run of blocks that all heads below it share; the topmost stands for a model."""

    __slots__ = ("children", "key", "marks", "parent", "run")

    def __init__(self, key: bytes, run: bytes, parent: _Node | None) -> None:
        self.key = key
        self.run = run
        self.parent = parent
        self.children: dict[bytes, _Node] = {}
        self.marks: dict[int, float] = {}


class PrefixTree:
    """See the module; ``len`` is the number of its nodes.

    An endpoint is marked by its incarnation, a number that no other process behind the same name
    ever has: so the marks of one that left win nothing, and expire like all others.
    """

    def __init__(self, rules: PrefixRules) -> None:
        self._rules = rules
        self._top = _Node(b"", b"", None)
        # The least recently used first; each node comes before its parent, so the first is a leaf.
        self._order: OrderedDict[_Node, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def trail(self, model: bytes, head: bytes, now: float) -> Trail:
        """What is known of this head; changes nothing."""
        steps: list[tuple[int, dict[int, float]]] = []
        node = self._top.children.get(model)
        at = 0
        while node is not None and (child := node.children.get(head[at : at + BLOCK_BYTES])):
            same = _bytes_in_common(child.run, head, at)
            at += same
            steps.append((at, child.marks))
            node = child if same == len(child.run) else None
        return Trail(model, head, steps=steps, rules=self._rules, now=now)

    def insert(self, model: bytes, head: bytes, *, incarnation: int, now: float) -> None:
        """The endpoint has taken this head in."""
        head = head[: len(head) - len(head) % BLOCK_BYTES]
        if not head:
            return
        before = len(self._order)
        node = self._child(self._top, model, model)
        path = [node]
        at = 0
        while at < len(head):
            child = self._child(node, head[at : at + BLOCK_BYTES], head[at:])
            same = _bytes_in_common(child.run, head, at)
            node = child if same == len(child.run) else _split(child, same)
            at += same
            path.append(node)
        for node in reversed(path):
            self._mark(node, incarnation, now)
        if len(self._order) > before:
            self._trim(now)

    def _child(self, parent: _Node, key: bytes, run: bytes) -> _Node:
        child = parent.children.get(key)
        if child is None:
            child = parent.children[key] = _Node(key, run, parent)
        return child

    def _mark(self, node: _Node, incarnation: int, now: float) -> None:
        marks = node.marks
        if len(marks) >= _MANY_MARKS and incarnation not in marks:
            expired_at = now - self._rules.ttl_s
            for one in [one for one, used_at in marks.items() if used_at <= expired_at]:
                del marks[one]
        marks[incarnation] = now
        self._order[node] = None
        self._order.move_to_end(node)

    def _trim(self, now: float) -> None:
        """Drop leaves that expired, a few at a time, and the oldest ones above the bound."""
        expired_at = now - self._rules.ttl_s
        for _ in range(_EXPIRED_AT_ONCE):
            oldest = next(iter(self._order))
            if max(oldest.marks.values()) > expired_at:
                break
            self._drop(oldest)
        while len(self._order) > self._rules.max_nodes:
            self._drop(next(iter(self._order)))

    def _drop(self, leaf: _Node) -> None:
        del self._order[leaf]
        if leaf.parent is not None:
            del leaf.parent.children[leaf.key]


def _split(node: _Node, length: int) -> _Node:
    """A new node for the first ``length`` bytes of the run; ``node`` keeps the rest below it."""
    upper = _Node(node.key, node.run[:length], node.parent)
    upper.marks = dict(node.marks)
    if node.parent is not None:
        node.parent.children[node.key] = upper
    node.run = node.run[length:]
    node.key = node.run[:BLOCK_BYTES]
    node.parent = upper
    upper.children[node.key] = node
    return upper


def _bytes_in_common(run: bytes, head: bytes, at: int) -> int:
    """How much of ``run`` stands in ``head`` from ``at`` on, in whole blocks."""
    if head.startswith(run, at):
        return len(run)
    low, high = 0, min(len(run), len(head) - at) // BLOCK_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if head.startswith(run[: middle * BLOCK_BYTES], at):
            low = middle
        else:
            high = middle - 1
    return low * BLOCK_BYTES
