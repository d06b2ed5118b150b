"""What the gateway needs from others, and what its own rooms need from each other.

``serve`` joins a ``RouteSource`` and perhaps ``LoadRequests``, and where keys are asked for a
``KeyLookup``, a ``LimitGate`` and a ``UsageSink``; ``connection`` fits ``Client``, ``arrival`` and
``dispatch`` fit ``Work``, ``pipeline`` fits ``Service``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from llmgw.domain.principals import Principal
from llmgw.domain.routes import RouteTable
from llmgw.domain.usage_rows import DispatchNote, UsageRow
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.grants import Hold
from llmgw.gateway.replies import Answer

NEVER = float("inf")
"""A ``due_at`` that is not reached."""


class RouteSource(Protocol):
    """Where route tables come from; each one replaces the last whole."""

    def current(self) -> RouteTable:
        """The table of this moment."""
        ...

    def subscribe(self, listener: Callable[[RouteTable], None]) -> Callable[[], None]:
        """Call ``listener`` on the event loop with each new table; the result ends that."""
        ...


class LoadRequests(Protocol):
    """Where models are asked for that are loaded on demand.

    What comes of it is in the next route tables: endpoints, or the state LOADING with the time that
    is left, or FAILED with its cause.
    """

    def want(self, model: str) -> None:
        """Somebody waits for the model; said once until it is withdrawn."""
        ...

    def withdraw(self, model: str) -> None:
        """Nobody waits for it any more."""
        ...


class KeyLookup(Protocol):
    """Whose a key is."""

    def known(self, token: str) -> Principal | None:
        """Its owner, where that is known here and now; never waits."""
        ...

    async def ask(self, token: str) -> Principal:
        """Its owner, within a bound; ``KeyUnknown`` or ``KeysUnavailable``."""
        ...


class LimitGate(Protocol):
    """The limits above a key; nothing here waits for anybody.

    A hold is given back to whoever gave it.
    """

    def reserve(
        self,
        principal: Principal,
        model: str,
        *,
        prompt_tokens: int,
        completion_tokens: Callable[[], int],
    ) -> Hold:
        """Let a request in and hold what it may use; ``LimitReached``, and then nothing is held.

        ``completion_tokens`` is called where it matters: to know it takes reading the body.
        """
        ...

    def told(self, principal: Principal) -> bytes:
        """The lines of a head that tell what is left of the rates, for who was not let in."""
        ...

    def move(self, hold: Any, model: str) -> Hold:
        """Hold the same for another model, or raise ``LimitReached`` and leave all as it was."""
        ...

    def settle(self, hold: Any, *, prompt_tokens: int, completion_tokens: int) -> int:
        """Count what it used in place of what was held; its cost in micro-units."""
        ...

    def cancel(self, hold: Any) -> None:
        """Give back all that is held, the request itself included."""
        ...


class UsageSink(Protocol):
    """Where the account of each request goes; neither blocks nor raises."""

    def dispatched(self, note: DispatchNote) -> None:
        """A request is about to be sent to an engine for the first time."""
        ...

    def ended(self, row: UsageRow) -> None:
        """One of those has ended."""
        ...


class SiblingsWord(NamedTuple):
    """A receipt that another worker has; where ``is_complete`` is false, not all have answered."""

    receipt: bytes | None
    is_complete: bool


class Siblings(Protocol):
    """The other workers of the host."""

    async def receipt(self, request_id: str) -> SiblingsWord:
        """The receipt of a request that one of them served, within a second or so."""
        ...


class Client(Protocol):
    """The connection of the client whose request is under way.

    Whoever takes its request on sets ``work`` and is told what the client does until its answer is
    complete.
    ``write`` passes bytes of an answer on and never blocks, ``write_later`` those with which it
    goes on, so that begins of others may go first; ``is_paused`` says that more would only pile up;
    at ``due_at`` the work is told that it is overdue.
    """

    is_paused: bool
    due_at: float
    work: Work | None

    @property
    def has_begun(self) -> bool:
        """Whether the head of its answer is out though nobody has answered yet."""
        ...

    @property
    def peer(self) -> str:
        """From which address it comes; empty where that is not known."""
        ...

    def write(self, data: bytes) -> None:
        """Bytes of an answer."""
        ...

    def write_later(self, data: bytes) -> None:
        """The next bytes of an answer."""
        ...

    def send(self, answer: Answer, exchange: Exchange) -> None:
        """A whole answer of our own, which ends the request."""
        ...

    def closes_after(self, exchange: Exchange) -> bool:
        """Whether the connection ends with this answer; the exchange remembers it."""
        ...

    def finish(self) -> None:
        """The answer is complete."""
        ...

    def break_off(self, *, resets: bool) -> None:
        """The answer stays incomplete; ``resets`` where a mere close would look like its end."""
        ...


class Work(Protocol):
    """What is done for a client, as far as its connection must tell it something."""

    @property
    def has_begun_answer(self) -> bool:
        """Whether bytes of the answer were written."""
        ...

    def on_client_gone(self) -> None:
        """The client left."""
        ...

    def on_paused(self) -> None:
        """The client takes no more bytes for now."""
        ...

    def on_resumed(self) -> None:
        """It takes bytes again."""
        ...

    def on_overdue(self) -> None:
        """``Client.due_at`` has passed."""
        ...

    def on_routes_changed(self) -> None:
        """A new table was taken over."""
        ...

    def cancel(self) -> None:
        """The gateway stops and waits no longer."""
        ...

    def on_fault(self, error: Exception) -> None:
        """Something failed by a fault of our own."""
        ...


class Service(Protocol):
    """What a client's request is given to."""

    def serve(self, client: Client, exchange: Exchange) -> None:
        """Answer the request, at once or later."""
        ...
