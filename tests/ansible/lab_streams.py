"""Clients that stream chats from a gateway while a block runs, and count what goes wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

CLIENTS = 2
TOKENS = 64
ANSWER_WITHIN_S = 120


@dataclass
class Streams:
    """What the clients have seen so far."""

    address: str
    model: str
    whole: int = 0
    broken: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_for_more(self, count: int = 1) -> None:
        """Until so many further answers have come to their end."""
        goal, deadline = self.whole + count, time.monotonic() + ANSWER_WITHIN_S
        while self.whole < goal:
            assert time.monotonic() < deadline, f"{self.whole} answers, {self.broken}"
            time.sleep(0.1)

    def run(self) -> None:
        """One client: one answer after the other."""
        while not self._stop.is_set():
            try:
                self._stream()
            except (OSError, http.client.HTTPException, AssertionError) as error:
                with self._lock:
                    self.broken.append(f"{type(error).__name__}: {error}")
                self._stop.wait(1)
            else:
                with self._lock:
                    self.whole += 1

    def stop(self) -> None:
        """No further answer is asked for."""
        self._stop.set()

    def _stream(self) -> None:
        connection = http.client.HTTPConnection(self.address, 8080, timeout=ANSWER_WITHIN_S)
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Count from one to one hundred."}],
            "max_tokens": TOKENS,
            "stream": True,
        }
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            answer = connection.getresponse()
            lines = answer.read().decode().split("\n\n")
            assert answer.status == 200, f"{answer.status}: {lines}"
            assert lines[-2:] == ["data: [DONE]", ""], f"cut off after {lines[-3:]}"


@contextlib.contextmanager
def streaming(address: str, model: str) -> Iterator[Streams]:
    """The clients stream; when the block ends, each comes to the end of its answer."""
    streams = Streams(address, model)
    threads = [
        threading.Thread(target=streams.run, name=f"client-{n}", daemon=True)
        for n in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        streams.wait_for_more()
        yield streams
        streams.wait_for_more()
    finally:
        streams.stop()
        for thread in threads:
            thread.join(ANSWER_WITHIN_S)
