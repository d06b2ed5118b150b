"""Says what a page tells of an error: whoever reads it may be anybody.

What does not answer, what the store refuses, and our own faults are told with addresses and paths
of this machine, which are for its log alone.
"""

from __future__ import annotations

from typing import Final

from llmgw.errors import Kind, LlmgwError
from llmgw.kit import logs

_FOR_THE_LOG: Final = frozenset({Kind.UNAVAILABLE, Kind.INTERNAL})
_NOT_NOW: Final = "this cannot be done now; try again soon"

_log = logs.get(__name__)


def told(error: LlmgwError) -> str:
    """The words for the page; what it does not tell is logged."""
    if error.kind not in _FOR_THE_LOG and not error.names_the_store:
        return error.message
    _log.warning("page_failed", code=error.code, error=error.message)
    return _NOT_NOW
