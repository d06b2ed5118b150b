"""One request as a client sent it, and the memory that request bodies take.

``connection`` fills a request in while it is parsed; ``pipeline`` and ``dispatch`` read it.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from llmgw.domain.names import REQUEST_ID
from llmgw.kit import ids


class BodyBudget:
    """How many bytes of request bodies a worker may hold at a time."""

    __slots__ = ("_most_bytes", "held_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    def take(self, n_bytes: int) -> bool:
        """Count bytes in, or say that there is no room."""
        if self.held_bytes + n_bytes > self._most_bytes:
            return False
        self.held_bytes += n_bytes
        return True

    def give(self, n_bytes: int) -> None:
        """Count bytes out."""
        self.held_bytes -= n_bytes


class ClientRequest:
    """Method, path, fields and body.

    Names of fields are in lower case and repeated fields are joined.  ``path`` is decoded once and
    has no query; ``keeps_open`` says whether the client's connection may outlive the answer.
    """

    __slots__ = (
        "_budget",
        "_pieces",
        "body",
        "body_bytes",
        "headers",
        "is_http10",
        "keeps_open",
        "method",
        "path",
        "request_id",
        "started_at",
    )

    def __init__(self, *, budget: BodyBudget, started_at: float) -> None:
        self._budget = budget
        self._pieces: list[bytes] = []
        self.started_at = started_at
        self.method = b""
        self.path = b""
        self.headers: dict[bytes, bytes] = {}
        self.is_http10 = False
        self.keeps_open = False
        self.body = b""
        self.body_bytes = 0
        self.request_id = ""

    def add_field(self, name: bytes, value: bytes) -> None:
        """Take in one header field."""
        name = name.lower()
        headers = self.headers
        headers[name] = value if name not in headers else headers[name] + b", " + value

    def add_body(self, piece: bytes) -> bool:
        """Take in a piece of the body, unless the budget is used up."""
        if not self._budget.take(len(piece)):
            return False
        self.body_bytes += len(piece)
        self._pieces.append(piece)
        return True

    def complete(self) -> None:
        """The body has come whole."""
        pieces, self._pieces = self._pieces, []
        self.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def identify(self) -> None:
        """Keep the id that the client chose if it is a legal one, else make one."""
        chosen = self.headers.get(b"x-request-id", b"").decode("latin-1")
        self.request_id = chosen if REQUEST_ID.fullmatch(chosen) else ids.request_id()

    def forget_content(self) -> None:
        """Nobody needs fields and body any more; may be called again."""
        self._budget.give(self.body_bytes)
        self.body_bytes = 0
        self.headers = {}
        self.body = b""
        self._pieces = []


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
