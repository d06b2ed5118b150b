"""One request of a client from its first byte to its account: what was asked and how it went.

``request_reader`` makes an ``Exchange`` when a request begins and fills in what the client sent,
``pipeline`` and ``dispatch`` what became of it, ``metering`` and ``request_log`` read it when it is
over.  One object carries all of it because making objects is a good part of what a request costs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from llmgw.domain.names import REQUEST_ID
from llmgw.gateway.grants import Grant
from llmgw.gateway.replies import Code
from llmgw.gateway.trail import MOST_STEPS, Step
from llmgw.gateway.usage import Usage
from llmgw.gateway.usage_chunk import Asking

MODEL_PATHS: Final = frozenset({b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"})
"""Paths whose requests are for a model."""

STREAM_PATHS: Final = MODEL_PATHS - {b"/v1/embeddings"}
"""Those that can answer with a stream."""

_LARGE_BYTES: Final = 262_144

_NO_FIELDS: Final[dict[bytes, bytes]] = {}

CLIENT_GONE: Final = 499
"""Status under which a request is counted whose client left before any answer."""


class State(enum.StrEnum):
    """How a request ended: an engine's 2xx is completed even when it broke off."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_FAILED: Final = State.FAILED


class Cut(enum.StrEnum):
    """What broke an answer off after its first byte."""

    LOST = "lost"
    """The engine's connection, or its framing."""
    NO_END = "no_end"
    """The stream ended without its own word that it was complete."""
    STUCK = "stuck"
    """It brought nothing, and its endpoint makes no progress."""
    SILENT = "silent"
    """It brought nothing for longer than anything may take."""
    STOPPING = "stopping"
    FAULT = "fault"


ENGINES_FAULTS: Final = frozenset({Cut.LOST, Cut.NO_END, Cut.STUCK, Cut.SILENT})
"""Cuts that the endpoint's breaker learns of."""


class BodyBudget:
    """How many bytes of request bodies a worker holds, and how many it may.

    The last eighth is for small bodies: a few clients with large ones must not shut out all.
    """

    __slots__ = ("held_bytes", "most_bytes", "most_large_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.most_large_bytes = most_bytes - most_bytes // 8
        self.held_bytes = 0

    def may_hold(self, wanted_bytes: int, *, of_body_bytes: int) -> bool:
        """Whether it may hold so many more of a body that then is of this length."""
        is_large = of_body_bytes > _LARGE_BYTES
        most_bytes = self.most_large_bytes if is_large else self.most_bytes
        return self.held_bytes + wanted_bytes <= most_bytes


class Exchange:
    """See the module.

    Names of fields are in lower case and repeated fields are joined; ``path`` is decoded once,
    ``query`` is what follows it, not kept where the path is a model's; ``keeps_open`` says whether
    the client lets its connection outlive the answer, ``closes`` that it will not; ``request_key``
    is the id as it travels; ``session_hint`` is what the body says of its session.
    ``usage_asking`` says how an engine may be asked for the usage that the client did not ask for;
    ``is_usage_hidden`` that it was, and that the client must not see it; ``request_bytes`` is the
    length of the body, also when that is forgotten.
    ``prompt_tokens`` is an estimate, made only where a prompt may be too long; ``project`` is who
    the request is for and ``grant`` what its key lets it do, absent where no key is asked for;
    ``fell_back_from`` is the model that was asked for where another one took it.
    Times are monotonic seconds, 0 where the thing did not happen.
    """

    __slots__ = (
        "_budget",
        "_pieces",
        "asked_name",
        "attempts",
        "body",
        "body_bytes",
        "closes",
        "code",
        "cut",
        "ended_at",
        "endpoint_id",
        "engine",
        "events",
        "fell_back_from",
        "first_byte_at",
        "first_sent_at",
        "grant",
        "headers",
        "is_http10",
        "is_probe",
        "is_stream",
        "is_usage_hidden",
        "keeps_open",
        "lacks_done",
        "method",
        "model_name",
        "path",
        "project",
        "prompt_tokens",
        "query",
        "request_bytes",
        "request_id",
        "request_key",
        "sent_at",
        "session_hint",
        "started_at",
        "state",
        "status",
        "trail",
        "usage",
        "usage_asking",
    )

    def __init__(self, budget: BodyBudget, started_at: float) -> None:
        self._budget = budget
        self._pieces: list[bytes] | None = None
        self.started_at = started_at
        # What was asked
        self.method = b""
        self.path = self.query = b""
        self.headers: dict[bytes, bytes] = {}
        self.is_http10 = self.is_probe = self.closes = False
        self.keeps_open = False
        self.body = b""
        self.body_bytes = 0
        self.request_id = ""
        self.request_key = b""
        self.asked_name = ""
        self.session_hint = ""
        self.is_stream = self.is_usage_hidden = False
        self.usage_asking: Asking | None = None
        self.request_bytes = 0
        self.prompt_tokens = 0
        self.project = ""
        self.grant: Grant | None = None
        # How it went
        self.model_name = self.fell_back_from = ""
        self.attempts = 0
        self.endpoint_id = self.engine = ""
        self.first_sent_at = self.sent_at = self.first_byte_at = self.ended_at = 0.0
        self.status = CLIENT_GONE
        self.code: Code | None = None
        self.state = _FAILED
        self.events = 0
        self.cut: Cut | None = None
        self.lacks_done = False
        self.usage: Usage | None = None
        self.trail: list[Step] | None = None

    @property
    def is_truncated(self) -> bool:
        """Whether the answer broke off after its first byte."""
        return self.cut is not None

    def note(self, step: Step) -> None:
        """Remember a step for the receipt."""
        if self.trail is None:
            self.trail = [step]
        elif len(self.trail) < MOST_STEPS:
            self.trail.append(step)

    def add_body(self, piece: bytes) -> bool:
        """Take in a piece of the body, unless the budget is used up."""
        budget, size = self._budget, len(piece)
        if budget.held_bytes + size > budget.most_large_bytes and not budget.may_hold(
            size, of_body_bytes=self.body_bytes + size
        ):
            return False
        budget.held_bytes += size
        if not self.body_bytes:
            self.body = piece
        elif self._pieces is None:
            self._pieces = [self.body, piece]
        else:
            self._pieces.append(piece)
        self.body_bytes += size
        return True

    def join_body(self) -> None:
        """The body has come whole: make it one."""
        if self._pieces is not None:
            self.body = b"".join(self._pieces)
            self._pieces = None

    def identify(self, new_id: Callable[[], str]) -> None:
        """Keep the id that the client chose if it is a legal one, else take a new one."""
        chosen = self.headers.get(b"x-request-id")
        if chosen is not None and REQUEST_ID.fullmatch(text := chosen.decode("latin-1")):
            self.request_id = text
        else:
            self.request_id = new_id()
        self.request_key = self.request_id.encode()

    def forget_content(self) -> None:
        """Nobody needs fields and body any more; may be called again."""
        if self.body_bytes:
            self._budget.held_bytes -= self.body_bytes
            self.body_bytes = 0
        self.headers = _NO_FIELDS
        self.body = b""
        self.usage_asking = None
        self._pieces = None


def path_of(target: bytes) -> bytes | None:
    """The path of a request target, decoded once and without its query.

    ``None`` for what must not be guessed at: no path, empty or dotted segments, a hidden slash.
    """
    path = target.partition(b"?")[0]
    if not path.startswith(b"/"):
        scheme, _, rest = path.partition(b"://")
        if scheme.lower() not in {b"http", b"https"}:
            return None
        path = b"/" + rest.partition(b"/")[2]
    if b"%" in path:
        if b"%2f" in path.lower():
            return None
        path = unquote_to_bytes(path)
    if b"//" in path or (b"/." in path and not {b".", b".."}.isdisjoint(path.split(b"/"))):
        return None
    return path
