"""What a client is told of the rates above its key, in the words of OpenAI; pure.

``gate`` makes one where a request is let in, and where one is not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from llmgw.accounting.counters import Moment


class Left(NamedTuple):
    """The rates that leave least, as they were when the request was looked at."""

    requests_limit: int | None
    requests_left: int
    tokens_limit: int | None
    tokens_left: int
    reset_s: int

    def told(self) -> bytes:
        """The lines of a head."""
        lines = b""
        if self.requests_limit is not None:
            lines = _TOLD_REQUESTS % (self.requests_limit, self.requests_left, self.reset_s)
        if self.tokens_limit is not None:
            lines += _TOLD_TOKENS % (self.tokens_limit, self.tokens_left, self.reset_s)
        return lines


_TOLD_REQUESTS: Final = (
    b"x-ratelimit-limit-requests: %d\r\nx-ratelimit-remaining-requests: %d\r\n"
    b"x-ratelimit-reset-requests: %ds\r\n"
)
_TOLD_TOKENS: Final = (
    b"x-ratelimit-limit-tokens: %d\r\nx-ratelimit-remaining-tokens: %d\r\n"
    b"x-ratelimit-reset-tokens: %ds\r\n"
)


def reset_s(at: Moment) -> int:
    """When nothing of this minute counts any more: at the end of the next."""
    return int(60 + 60 * at.before_weight)
