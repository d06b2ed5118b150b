"""What one request used, and what is known of it while it runs.

A gateway worker makes both; the store keeps the rows. Never a word of what was asked or answered.
Times are seconds since 1970, money is whole micro-units. They are tuples: a worker makes two of
them a request, and a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from llmgw.domain.pricing import FREE, Price, cost

Outcome = Literal["finished", "aborted", "failed", "lost"]
"""Answered whole; left by its client; ended by a failure; ended with its worker."""


class DispatchNote(NamedTuple):
    """A request as it goes to an engine: what it costs at most, should nobody tell its end."""

    request_id: str
    at: float
    key_id: str
    user_id: str | None
    project_id: str
    model: str
    """As it was asked for."""
    estimate_prompt: int
    reserved_completion: int
    price: Price = FREE
    holds: tuple[str, ...] = ()
    """The counters in which something is held for it."""
    served_model: str = ""
    """The one that serves, whose price it is; empty: the one that was asked for."""
    entry_id: str = ""
    """Given by the journal: unlike a request's id, no client can choose it."""


class UsageRow(NamedTuple):
    """One request that was sent to an engine, as it is kept and paid."""

    request_id: str
    at: float
    """When it was sent, so that its row is the same whoever writes it."""
    key_id: str
    user_id: str | None
    project_id: str
    model: str
    """As it was asked for."""
    served_model: str
    endpoint: str
    node_id: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    cost_micros: int
    price: Price
    outcome: Outcome
    is_estimated: bool
    status: int
    """What its client was told; 0 where nothing was."""
    ttft_ms: float | None
    latency_ms: float | None
    entry_id: str = ""
    """Given by the journal: unlike a request's id, no client can choose it."""


def lost(note: DispatchNote) -> UsageRow:
    """The row of a request whose worker died: nobody knows better than what was estimated."""
    return UsageRow(
        request_id=note.request_id,
        at=note.at,
        key_id=note.key_id,
        user_id=note.user_id,
        project_id=note.project_id,
        model=note.model,
        served_model=note.served_model or note.model,
        endpoint="",
        node_id="",
        prompt_tokens=note.estimate_prompt,
        completion_tokens=0,
        cached_tokens=None,
        cost_micros=cost(note.price, note.estimate_prompt, 0),
        price=note.price,
        outcome="lost",
        is_estimated=True,
        status=0,
        ttft_ms=None,
        latency_ms=None,
        entry_id=note.entry_id,
    )
