"""What one request was granted: whose it is, and what it holds of the limits above its key.

``pipeline`` makes one where keys are asked for, ``charging`` settles it when the request is over.
"""

from __future__ import annotations

from typing import Protocol

from llmgw.domain.pricing import Price
from llmgw.domain.principals import Principal


class Hold(Protocol):
    """What is held for one request until it is settled or cancelled, which each happen once."""

    @property
    def counters(self) -> tuple[str, ...]:
        """Under which something is held: ``org:o1``."""
        ...

    @property
    def completion_tokens(self) -> int:
        """For how long an answer it is held; 0 where nobody had to know."""
        ...

    @property
    def price(self) -> Price:
        """What the model costs for which it is held."""
        ...

    @property
    def told(self) -> bytes:
        """The lines of an answer's head that tell what is left of the limits."""
        ...


class Grant:
    """See the module; ``hold`` is absent before limits were asked and after they were settled.

    ``prompt_tokens`` is an estimate; ``sent_at`` is when it was first sent to an engine, in seconds
    since 1970, 0 before, and ``node_id`` the node that it was last sent to; ``told`` are the lines
    of an answer's head that tell what is left of the limits.
    """

    __slots__ = (
        "hold",
        "node_id",
        "principal",
        "prompt_tokens",
        "sent_at",
        "told",
    )

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.hold: Hold | None = None
        self.prompt_tokens = 0
        self.sent_at = 0.0
        self.node_id = ""
        self.told = b""
