"""A pytest plugin: real engines as processes of their own, without a GPU and without a download.

``start_sim`` starts any number of sim engines, ``tiny_gguf`` is a model file that llama.cpp loads.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import tiny_gguf as tiny_model

START_TIMEOUT_S = 20.0
_LISTENING = re.compile(r"listening address=(\S+)")
_SAMPLE = re.compile(r"^([a-z_:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class EngineProcess:
    """An engine that a test has started; it is killed after the test."""

    def __init__(self, words: Sequence[str], *, log: Path, url: str = "") -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(words), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.url = url

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def wait_listening(self) -> None:
        """Learn the address from the log."""
        self._wait(lambda: _LISTENING.search(self.output) is not None, "listen")
        found = _LISTENING.search(self.output)
        assert found
        self.url = f"http://{found[1]}"

    def wait_ready(self) -> None:
        """Return once ``/health`` answers 200."""
        self._wait(lambda: self.health() == 200, "become ready")

    def health(self) -> int:
        """Status of ``/health``, or 0 while nothing answers."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code
        except httpx.TransportError:
            return 0

    def behave(self, **wanted: object) -> None:
        """Change the behaviour of a running sim engine."""
        httpx.post(f"{self.url}/sim", json=wanted, timeout=5).raise_for_status()

    def metric(self, name: str) -> float:
        """Sum of the samples of one metric."""
        text = httpx.get(f"{self.url}/metrics", timeout=5).raise_for_status().text
        return sum(float(value) for found, _, value in _SAMPLE.findall(text) if found == name)

    def wait_metric(self, name: str, value: float, *, timeout_s: float = 6.0) -> float:
        """Seconds until a metric had that value; an assertion error if it never had."""
        started = time.monotonic()
        seen = self.metric(name)
        while seen != value:
            assert time.monotonic() - started < timeout_s, f"{name} is {seen}, not {value}"
            time.sleep(0.005)
            seen = self.metric(name)
        return time.monotonic() - started

    def send(self, number: signal.Signals) -> None:
        """Signal the process; one that has ended is left alone."""
        self.process.send_signal(number)

    def wait(self, *, timeout_s: float = 10.0) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """Kill it if it lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_so():
            code = self.process.poll()
            assert code is None, f"the engine ended with {code}:\n{self.output}"
            assert time.monotonic() < deadline, f"the engine did not {what}:\n{self.output}"
            time.sleep(0.02)


StartSim = Callable[..., EngineProcess]


def sim_words(*models: str, listen: str = "127.0.0.1:0", **flags: Any) -> list[str]:
    """The command of a sim engine; ``ttft_ms=5`` becomes ``--ttft-ms 5``, ``True`` a bare flag."""
    words = [sys.executable, "-m", "llmgw", "sim-engine", "--listen", listen]
    for model in models or ("sim",):
        words += ["--model", model]
    for name, value in flags.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


@pytest.fixture
def start_sim(tmp_path: Path) -> Iterator[StartSim]:
    """Start a sim engine on a free port: ``start_sim("name", ttft_ms=5, is_awaited=True)``."""
    engines: list[EngineProcess] = []
    numbers = itertools.count()

    def start(*models: str, is_awaited: bool = True, **flags: Any) -> EngineProcess:
        log = tmp_path / f"sim-{next(numbers)}.log"
        engine = EngineProcess(sim_words(*models, **flags), log=log)
        engines.append(engine)
        if is_awaited:
            engine.wait_listening()
            engine.wait_ready()
        return engine

    yield start
    for engine in engines:
        engine.close()


StartLlama = Callable[..., EngineProcess]


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file that llama.cpp loads in a fifth of a second and that speaks gibberish."""
    return tiny_model.write(tmp_path_factory.mktemp("model") / "tiny-random.gguf")


@pytest.fixture
def start_llama(tmp_path: Path, tiny_gguf: Path) -> Iterator[StartLlama]:
    """Start our llama-server launcher on a free port: ``start_llama("--embeddings")``."""
    engines: list[EngineProcess] = []
    launcher = (sys.executable, "-m", "llmgw", "llama-server")

    def start(
        *flags: str,
        program: Sequence[str] = launcher,
        model: Path = tiny_gguf,
        alias: str = "tiny",
        is_awaited: bool = True,
    ) -> EngineProcess:
        port = free_port()
        words = [*program, "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
        words += ["--alias", alias, "--threads", "1", "--metrics", *flags]
        log = tmp_path / f"llama-{len(engines)}.log"
        engine = EngineProcess(words, log=log, url=f"http://127.0.0.1:{port}")
        engines.append(engine)
        if is_awaited:
            engine.wait_ready()
        return engine

    yield start
    for engine in engines:
        engine.close()


def free_port() -> int:
    """A port that nobody held a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
