"""Have a stream tell its usage also where the client did not ask, and take that chunk out again.

``dispatch`` changes the request; ``passage`` sends the answer through a ``Removal``.  Only whole
frames are passed on meanwhile, and a frame is dropped only if it parses as the extra chunk and
nothing else, so everything that the client asked for passes byte for byte.  Pure.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import orjson

from llmgw.gateway import usage
from llmgw.gateway.usage import Usage

MOST_HELD_BYTES = 1024 * 1024
"""A longer frame is passed on as it came, and so is everything after it."""

_OPTIONS = b'"stream_options":{"include_usage":true},'
_NAME = b'"usage"'
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_END_OF_FRAME = re.compile(rb"\n\r?\n")

_decode_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Asking(msgspec.Struct, frozen=True):
    """That usage has to be asked for on top of the client's own ``options``, if it sent any."""

    options: dict[str, Any] | None = None


_WITHOUT_OPTIONS = Asking()


def asking(options: Any) -> Asking | None:
    """How to ask beside a client's ``stream_options``, which are ``UNSET`` where it sent none.

    ``None`` where it asked itself, and for what no client library sends: that is the engine's to
    judge.
    """
    if options is msgspec.UNSET:
        return _WITHOUT_OPTIONS
    if options is None:
        return Asking({})
    if isinstance(options, dict) and not options.get("include_usage"):
        return Asking(options)
    return None


def ask(body: bytes, how: Asking) -> bytes:
    """The same body asking for usage; the bytes of every other value stay as they are."""
    if how.options is None:
        begin = body.index(b"{") + 1
        return body[:begin] + _OPTIONS + body[begin:]
    fields = _decode_raw_fields(body)
    options = {**how.options, "include_usage": True}
    fields["stream_options"] = msgspec.Raw(msgspec.json.encode(options))
    return msgspec.json.encode(fields)


def padded_out(body: bytes) -> tuple[bytes, Usage | None]:
    """A whole stream with a comment in place of the chunk, and what the chunk said."""
    removal = Removal(pads=True)
    return removal.feed(body) + removal.rest(), removal.usage


class Removal:
    """The payload of one stream on its way through; ``usage`` is what was taken out.

    Where ``pads``, a comment of the same length takes the chunk's place, for a body whose length
    was announced.
    """

    __slots__ = ("_has_given_up", "_held", "_pads", "usage")

    def __init__(self, *, pads: bool = False) -> None:
        self._held = bytearray()
        self._has_given_up = False
        self._pads = pads
        self.usage: Usage | None = None

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing is held back, and removing goes on."""
        return not (self._held or self._has_given_up)

    def feed(self, payload: bytes) -> bytes:
        """What can be passed on now that ``payload`` has come."""
        if self._has_given_up:
            return payload
        held = self._held
        before = max(len(held) - 2, 0)
        held += payload
        end = _last_end(held, before)
        whole = bytes(held[:end])
        del held[:end]
        passed = self._without(whole) if _NAME in whole else whole
        return passed + self._give_up() if len(held) > MOST_HELD_BYTES else passed

    def rest(self) -> bytes:
        """A begun frame that was held back; the stream has ended."""
        rest = bytes(self._held)
        self._held.clear()
        return rest

    def _give_up(self) -> bytes:
        self._has_given_up = True
        return self.rest()

    def _without(self, frames: bytes) -> bytes:
        passed = []
        begin = 0
        for match in _END_OF_FRAME.finditer(frames):
            frame = frames[begin : match.end()]
            begin = match.end()
            if not self._takes_out(frame):
                passed.append(frame)
            elif self._pads:
                passed.append(b":" + b" " * (len(frame) - 3) + b"\n\n")
        passed.append(frames[begin:])
        return b"".join(passed)

    def _takes_out(self, frame: bytes) -> bool:
        """Whether ``frame`` is the extra chunk, whose figures are then kept."""
        if _NAME not in frame or not _NO_CHOICES.search(frame):
            return False
        lines = [line.strip(b"\r") for line in frame.split(b"\n")]
        data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        if not isinstance(chunk, dict) or chunk.get("choices") != [] or chunk.get("usage") is None:
            return False
        try:
            self.usage = usage.in_object(orjson.dumps(chunk["usage"])) or self.usage
        except orjson.JSONEncodeError:  # nested deeper than orjson writes, though it reads it
            return False
        return True


def _last_end(text: bytearray, begin: int) -> int:
    """Where the last whole frame ends that ends behind ``begin``; 0 without one."""
    end = text.rfind(b"\n\n", begin)
    other = text.rfind(b"\n\r\n", begin)
    return max(end + 2 if end >= 0 else 0, other + 3 if other >= 0 else 0)
