"""Programs that behave as ``vllm``, ``ray`` and SGLang's Python do, without a card and a model.

``install(folder)`` writes them.  They refuse options that the recorded help of the real ones lacks,
meet as these do, and answer like them.  Unlike the real ones, a rank that comes too early gives up
at once: so a test sees that it was held back.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "engine_help"
JOIN_WITHIN_S = 20.0
_HELP = {"vllm": "vllm-0.33.0", "ray": "ray-2.60.0", "sglang": "sglang-0.5.23"}
_METRICS = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "prompt": "vllm:prompt_tokens_total",
        "generated": "vllm:generation_tokens_total",
        "kv": "vllm:kv_cache_usage_perc",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "prompt": "sglang:prompt_tokens_total",
        "generated": "sglang:generation_tokens_total",
        "kv": "sglang:token_usage",
        "steps": "sglang:realtime_tokens_total",
    },
}
_WORDS = ("alpha", "beta", "gamma", "delta")


def install(folder: Path) -> Path:
    """Write ``vllm``, ``ray`` and ``python`` into a folder, as in the ``bin`` of an environment."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vllm", "ray", "python"):
        path = folder / name
        path.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path[:0] = [{str(ROOT)!r}, "
            f"{str(ROOT / 'runtime')!r}]\n"
            f"from tests.fakes import stub_engines\nstub_engines.main({name!r}, sys.argv[1:])\n"
        )
        path.chmod(0o755)
    return folder


def main(program: str, words: Sequence[str]) -> None:
    """Be one of the programs."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    match program, *words:
        case ["vllm", "serve", *args]:
            _be_vllm(_options("vllm", args), model=args[0])
        case ["ray", "start", *args]:
            _be_ray(_options("ray", args))
        case ["python", "-m", "sglang.launch_server", *args]:
            _be_sglang(_options("sglang", args))
        case _:
            _die(f"{program} has no command {words[:2]}")


def _options(program: str, args: Sequence[str]) -> dict[str, str]:
    from llmgw.agent.engines import help_texts  # noqa: PLC0415 - the path is set by now

    known = help_texts.parse((RECORDED / f"{_HELP[program]}.txt").read_text())
    given: dict[str, str] = {}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        option = known.get(word)
        if option is None:
            _die(f"{program}: error: unrecognized arguments: {word}")
        given[word] = rest.pop(0) if option.takes_value else "yes"
        if option.choices and given[word] not in option.choices:
            _die(f"{program}: error: argument {word}: invalid choice: {given[word]!r}")
    return given


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _die(text: str) -> Any:
    _say(text)
    os._exit(2 if "error" in text else 1)


def _be_vllm(given: Mapping[str, str], *, model: str) -> None:
    name = given.get("--served-model-name", model)
    cards = int(given.get("--tensor-parallel-size", 1)) * int(
        given.get("--pipeline-parallel-size", 1)
    )
    if given.get("--distributed-executor-backend") == "ray":
        _watch(_cluster_of(cards))
    elif int(given.get("--nnodes", 1)) > 1:
        at = (given["--master-addr"], int(given["--master-port"]))
        _meet(at, rank=int(given["--node-rank"]), nodes=int(given["--nnodes"]))
        if "--headless" in given:
            threading.Event().wait()
    _serve("vllm", given["--host"], int(given["--port"]), name)


def _be_sglang(given: Mapping[str, str]) -> None:
    rank = int(given.get("--node-rank", 0))
    if "--nnodes" in given:
        host, _, port = given["--dist-init-addr"].rpartition(":")
        _meet((host, int(port)), rank=rank, nodes=int(given["--nnodes"]))
    if "--enable-metrics" not in given:
        _die("error: this stub is always asked for its figures")
    name = given.get("--served-model-name", given["--model-path"])
    _serve("sglang", given["--host"], int(given["--port"]), name, is_dummy=rank > 0)


def _be_ray(given: Mapping[str, str]) -> None:
    if "--head" in given:
        Cluster((given["--node-ip-address"], int(given["--port"])), int(given["--num-gpus"]))
        threading.Event().wait()
    host, _, port = given["--address"].rpartition(":")
    head = _dial((host, int(port)))
    head.sendall(f"join {given['--num-gpus']}\n".encode())
    while head.recv(64):
        pass
    _die("ray: the head is gone")


class Cluster:
    """Where ranks meet: counts what has joined, and is broken by whoever leaves."""

    def __init__(self, at: tuple[str, int], own: int) -> None:
        self.total, self.is_broken = own, False
        self._lock = threading.Lock()
        listener = socket.create_server(at)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            made, _ = listener.accept()
            threading.Thread(target=self._hear, args=(made,), daemon=True).start()

    def _hear(self, made: socket.socket) -> None:
        joined = 0
        with contextlib.suppress(OSError), made, made.makefile("r") as lines:
            for line in lines:
                word, _, count = line.partition(" ")
                if word == "join":
                    joined = int(count)
                    with self._lock:
                        self.total += joined
                elif word.strip() == "total":
                    total = -1 if self.is_broken else self.total
                    made.sendall(f"{total}\n".encode())
        if joined:
            self.is_broken = True


def _dial(at: tuple[str, int]) -> socket.socket:
    try:
        return socket.create_connection(at, timeout=None)
    except OSError:
        return _die(f"cannot reach {at[0]}:{at[1]}: this rank came too early")


def _cluster_of(cards: int) -> socket.socket:
    """A connection to the Ray cluster of the environment, once it has that many cards."""
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    head = _dial((host, int(port)))
    _await_total(head, cards)
    return head


def _await_total(head: socket.socket, wanted: int) -> None:
    deadline = time.monotonic() + JOIN_WITHIN_S
    while _total(head) < wanted:
        if time.monotonic() > deadline:
            _die("the other ranks did not come")
        time.sleep(0.02)


def _total(head: socket.socket) -> int:
    head.sendall(b"total\n")
    answer = head.recv(64)
    return int(answer) if answer else -1


def _watch(head: socket.socket) -> None:
    """End when a rank is lost, as an engine does whose workers die."""

    def look() -> None:
        while _total(head) >= 0:
            time.sleep(0.05)
        _die("EngineDeadError: a rank is gone")

    threading.Thread(target=look, daemon=True).start()


def _meet(at: tuple[str, int], *, rank: int, nodes: int) -> None:
    """As torch's store: rank 0 opens it and waits for the others."""
    if rank == 0:
        Cluster(at, 1)
    head = _dial(at)
    if rank:
        head.sendall(b"join 1\n")
    _await_total(head, nodes)
    _watch(head)


class Counts:
    """The figures of one engine."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of = dict.fromkeys(("running", "waiting", "prompt", "generated", "steps", "kv"), 0)

    def add(self, **counts: int) -> None:
        with self.lock:
            for name, count in counts.items():
                self.of[name] += count


def _serve(kind: str, host: str, port: int, model: str, *, is_dummy: bool = False) -> None:
    server = _Server((host, port), _Handler)
    server.kind, server.model, server.is_dummy = kind, model, is_dummy
    server.counts = Counts()
    _say(f"{kind} serves {model} on {host}:{port}")
    server.serve_forever()


class _Server(ThreadingHTTPServer):
    """What all connections share."""

    daemon_threads = True
    kind: str
    model: str
    is_dummy: bool
    counts: Counts


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send("")
        elif self.server.is_dummy:
            self._send("not found", 404)
        elif self.path == "/v1/models":
            self._send(json.dumps({"object": "list", "data": [{"id": self.server.model}]}))
        else:
            self._send(_page(self.server))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            asked = json.loads(body)
        except ValueError:
            self._send(json.dumps({"error": {"message": "no JSON"}}), 400)
            return
        self.server.counts.add(running=1)
        try:
            self._answer(asked)
        except OSError:
            self.close_connection = True
        finally:
            self.server.counts.add(running=-1)

    def _answer(self, asked: dict[str, Any]) -> None:
        if self.path == "/v1/embeddings":
            self._embed(asked["input"])
            return
        shape = _Shape(self.path, asked, self.server.model)
        self.server.counts.add(prompt=shape.prompt_tokens)
        if not asked.get("stream"):
            self.server.counts.add(generated=shape.tokens, steps=shape.tokens)
            self._send(json.dumps(shape.whole()))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in shape.events():
            self.server.counts.add(steps=1)
            self._chunk(f"data: {json.dumps(event)}\n\n")
            time.sleep(0.001)
        self.server.counts.add(generated=shape.tokens)
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _embed(self, texts: Sequence[str]) -> None:
        rows = [
            {"index": i, "embedding": [float(len(text) + j + i) for j in range(9)]}
            for i, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        self._send(json.dumps({"data": rows, "model": self.server.model, "usage": usage}))

    def _chunk(self, text: str) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))

    def _send(self, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/plain" if text[:1] != "{" else "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _page(server: _Server) -> str:
    """The figures as the engine names and labels them."""
    with server.counts.lock:
        rows = [
            f'{name}{{model_name="{server.model}",engine="0"}} {float(server.counts.of[of])}'
            for of, name in _METRICS[server.kind].items()
        ]
    return "\n".join(rows) + "\n"


class _Shape:
    """One answer of the OpenAI API, in one piece or as events."""

    def __init__(self, path: str, asked: Mapping[str, Any], model: str) -> None:
        self.is_chat = path.endswith("chat/completions")
        self.tokens = int(asked.get("max_tokens") or 16)
        said = asked["messages"][-1]["content"] if self.is_chat else asked["prompt"]
        self.prompt_tokens = max(1, len(str(said).split()))
        self._model = model
        self._wants_usage = (asked.get("stream_options") or {}).get("include_usage", False)

    def whole(self) -> dict[str, Any]:
        """All of it."""
        text = "".join(self._pieces())
        said = (
            {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        )
        choice = {"index": 0, **said, "finish_reason": "length"}
        return {**self._head(), "choices": [choice], "usage": self._usage()}

    def events(self) -> Iterator[dict[str, Any]]:
        """Piece by piece; the usage comes last, in an event of its own."""
        for piece in self._pieces():
            said = {"delta": {"content": piece}} if self.is_chat else {"text": piece}
            choice = {"index": 0, **said, "finish_reason": None}
            yield {**self._head(), "choices": [choice]}
        end: dict[str, Any] = {"delta": {}} if self.is_chat else {"text": ""}
        yield {**self._head(), "choices": [{"index": 0, **end, "finish_reason": "length"}]}
        if self._wants_usage:
            yield {**self._head(), "choices": [], "usage": self._usage()}

    def _pieces(self) -> list[str]:
        return [f" {_WORDS[i % len(_WORDS)]}" for i in range(self.tokens)]

    def _head(self) -> dict[str, Any]:
        return {"id": "stub-1", "model": self._model}

    def _usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": total,
        }
