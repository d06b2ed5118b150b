"""Stands before an engine, passes every byte on and keeps it: what was said is known exactly."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

import httptools

_READ_BYTES = 65536


class Exchanged:
    """What one connection carried; ``asked`` and ``answered`` are bytes as they came."""

    def __init__(self) -> None:
        self.asked = b""
        self.answered = b""


class Wiretap:
    """Listens on a port of its own for one engine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._exchanged: list[Exchanged] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def forget(self) -> None:
        """What was said so far is of no interest."""
        for kept in self._exchanged:
            kept.asked = kept.answered = b""

    def said(self) -> tuple[bytes, bytes]:
        """The bodies of the one request for a model since then, and of its answer."""
        [kept] = [kept for kept in self._exchanged if b" /v1/" in kept.asked]
        asked, answered = _Bodies(), _Bodies()
        httptools.HttpRequestParser(asked).feed_data(kept.asked)
        httptools.HttpResponseParser(answered).feed_data(kept.answered)
        [request], [answer] = asked.whole, answered.whole
        return request, answer

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                engine = socket.create_connection(("127.0.0.1", self._port))
                self._exchanged.append(kept := Exchanged())
                for ends in ((client, engine, kept, "asked"), (engine, client, kept, "answered")):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, to: socket.socket, kept: Exchanged, name: str) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_READ_BYTES):
            setattr(kept, name, getattr(kept, name) + data)
            to.sendall(data)
    for end in (source, to):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


class _Bodies:
    def __init__(self) -> None:
        self.whole: list[bytes] = []
        self._body = b""

    def on_body(self, piece: bytes) -> None:
        self._body += piece

    def on_message_complete(self) -> None:
        self.whole.append(self._body)
        self._body = b""
