"""An OpenAI endpoint that answers requests with tools well, or in one of the known wrong ways."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = '{"city": "Paris"}'
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


class ToolEngine:
    """``text`` stands in for calls where it is set; each flag is one fault."""

    def __init__(self, **faults: Any) -> None:
        self.text = faults.pop("text", "")
        self.name = faults.pop("name", "get_weather")
        self.arguments = faults.pop("arguments", ARGUMENTS)
        self.refuses = faults.pop("refuses", "")
        self.json_text = faults.pop("json_text", '{"city": "Paris", "country": "France"}')
        self.has_end = faults.pop("has_end", True)
        self.is_index_lost = faults.pop("is_index_lost", False)
        self.repeats = faults.pop("repeats", False)
        self.is_garbled = faults.pop("is_garbled", False)
        self.status = faults.pop("status", 400)
        assert not faults
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    def message(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The message of an answer."""
        if "response_format" in asked:
            return {"role": "assistant", "content": self.json_text}
        if asked["messages"][-1]["role"] == "tool" and not self.repeats:
            return {"role": "assistant", "content": "It is 21 degrees."}
        if self.text:
            return {"role": "assistant", "content": self.text}
        function = {"name": self.name, "arguments": self.arguments}
        call = {"id": "call-1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def events(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The same as pieces."""
        yield _event({"role": "assistant", "content": ""})
        for call in message.get("tool_calls", ()):
            index = {} if self.is_index_lost else {"index": 0}
            head = {**call, **index, "function": {"name": call["function"]["name"]}}
            yield _event({"tool_calls": [head]})
            for piece in (call["function"]["arguments"][:5], call["function"]["arguments"][5:]):
                yield _event({"tool_calls": [{**index, "function": {"arguments": piece}}]})
        if message["content"]:
            yield _event({"content": message["content"]})
        yield _event({}, finish_reason=_reason(message))


def _reason(message: dict[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _event(delta: dict[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


@contextlib.contextmanager
def serving(engine: ToolEngine) -> Iterator[ToolEngine]:
    """The engine on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            engine.asked.append(asked)
            if engine.refuses and "tools" in asked:
                self._send(engine.status, json.dumps({"error": {"message": engine.refuses}}))
                return
            message = engine.message(asked)
            if not asked.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": _reason(message)}
                whole = json.dumps({"choices": [choice]})
                self._send(200, whole[:-5] if engine.is_garbled else whole)
                return
            lines = [f"data: {json.dumps(event)}\n\n" for event in engine.events(message)]
            self._send(200, "".join(lines) + ("data: [DONE]\n\n" if engine.has_end else ""))

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    engine.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
