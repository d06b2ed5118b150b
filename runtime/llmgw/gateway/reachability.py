"""Say in the log once why an endpoint cannot be reached, and once that it can again.

Both pools of an endpoint tell it how their dials end: only they know a refused port from a name
that does not resolve or a certificate that is not trusted, and clients are told none of it.
"""

from __future__ import annotations

from llmgw.kit import logs

_log = logs.get(__name__)


class Reachability:
    """What the dials of one endpoint found last.

    Nothing is said of one that is not ``is_expected``: it is being drained, or has left.
    """

    __slots__ = ("_endpoint_id", "_reason", "is_expected")

    def __init__(self, endpoint_id: str) -> None:
        self._endpoint_id = endpoint_id
        self._reason = ""
        self.is_expected = False

    def failed(self, reason: str) -> None:
        """A dial failed; the same reason is not said again."""
        if self.is_expected and reason != self._reason:
            self._reason = reason
            _log.warning("endpoint_unreachable", endpoint=self._endpoint_id, reason=reason)

    def reached(self) -> None:
        """A dial succeeded."""
        if self._reason:
            self._reason = ""
            _log.info("endpoint_reached", endpoint=self._endpoint_id)
