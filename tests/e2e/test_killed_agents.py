"""An agent over a real llama.cpp is killed while it loads, while it serves and while it stops."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time

import httpx
import pytest
import yaml

from llmgw.kit import proctable
from tests.fakes import tiny_gguf
from tests.fakes.agents import is_alive
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GENUINE = os.environ.get("LLMGW_TEST_LLAMA_SERVER", "")
LAUNCHER = [sys.executable, "-m", "llmgw", "llama-server"]
PROGRAMS = [
    pytest.param(LAUNCHER, id="launcher"),
    pytest.param(
        [GENUINE],
        id="llama-server",
        marks=pytest.mark.skipif(not GENUINE, reason="LLMGW_TEST_LLAMA_SERVER names no program"),
    ),
]
CONTEXT_TOKENS = 65536
SLOW_PROMPT_BYTES = 24_000
"""One token a byte; some seconds of work for one core."""

HANG_S = 8.0
"""Longer than the gateway waits before it leaves an engine, less two looks of the agent."""

SLOW_S = 1.5 * HANG_S
RUNS_S, PAUSES_S = 0.02, 0.1
"""A sixth of a core is left of an engine that is slowed down: little, and more than none."""

HUNG_WITHIN_S = 75.0
"""Three times what it takes: the bound in looks of six seconds, the stop plan, and a start."""


class House:
    """A server and one agent whose only model is served by a real llama.cpp."""

    def __init__(self, deployment, program, model):
        self.deployment = deployment
        self._program = program
        self._model = model
        self.agent = None

    def open(self, **supervisor):
        profile = {"name": "cpu", "engine": "llamacpp"}
        profile["args"] = ["--threads", "1", "--parallel", "1"]
        self.models = [
            {
                "name": "tiny",
                "source": str(self._model),
                "context_length": CONTEXT_TOKENS,
                "scaling": {"min": 1},
                "profiles": [profile],
            }
        ]
        # Asked for, so that it is there without any model too.
        control = {"enabled": True, "interval": 1, "base_backoff": 0.5}
        control["expect_nodes"] = ["node1"]
        self.deployment.server(models=self.models, agent_tls="insecure", control=control)
        self.agent = self.deployment.agent(
            1,
            engines={"llamacpp": {"bin": self._program}},
            supervisor={
                "work_dir": str(self.work_dir),
                "health_interval": 0.2,
                "stop_timeout": 5,
                **supervisor,
            },
        )

    @property
    def work_dir(self):
        return self.deployment.root / "node1" / "work"

    def engine(self):
        """The pid of the one engine, as soon as there is one."""
        return until(self._engine, "an engine runs")

    def _engine(self):
        pids = list(self.deployment.engines().values()) or self._genuine()
        return pids[0] if len(pids) == 1 else None

    def _genuine(self):
        return [pid for pid, words in self.deployment._processes() if words[0] == GENUINE]

    def ready(self):
        self.deployment.wait_ready("tiny", 1)
        (replica,) = self.deployment.ready("tiny")
        return replica

    def unload(self):
        """Start the server anew without the model, so that the agent is told to stop it."""
        file = self.deployment.root / "server.yaml"
        settings = yaml.safe_load(file.read_text())
        self.deployment.parts["server"].kill()
        file.write_text(yaml.safe_dump({**settings, "models": []}))
        self.deployment.parts["server"].start()

    def ask(self, prompt="hi", tokens=2, timeout_s=200):
        body = {"model": "tiny", "max_tokens": tokens}
        body["messages"] = [{"role": "user", "content": prompt}]
        url = f"{self.deployment.url}/v1/chat/completions"
        return httpx.post(url, json=body, timeout=timeout_s)


def used_s(pid):
    """Processor time of a process; one that has ended uses no more."""
    found = proctable.entry(pid)
    return 0.0 if found is None else found.cpu_s


@contextlib.contextmanager
def slowed(pid, *, for_s):
    """Make a process slow on every machine: it pauses whenever it has worked for a moment."""
    is_over = threading.Event()

    def pause_again_and_again():
        until_at = time.monotonic() + for_s
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until_at and not is_over.is_set():
                until_cpu_s = used_s(pid) + RUNS_S
                os.kill(pid, signal.SIGCONT)
                while used_s(pid) < until_cpu_s and not is_over.wait(RUNS_S / 4):
                    os.kill(pid, 0)
                os.kill(pid, signal.SIGSTOP)
                is_over.wait(PAUSES_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=pause_again_and_again)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture(params=PROGRAMS)
def house(deployment, tmp_path, request):
    model = tiny_gguf.write(tmp_path / "tiny.gguf", context_tokens=CONTEXT_TOKENS)
    return House(deployment, request.param, model)


def test_an_agent_killed_during_the_load_leaves_one_engine_that_the_next_adopts(house):
    house.open()
    house.agent.wait_said("(shard_state .*state=loading)")
    house.agent.kill()
    pid = house.engine()
    house.agent.start()
    house.agent.wait_said("(shard_adopted)")
    replica = house.ready()
    assert house.engine() == pid
    assert house.ask().status_code == 200
    assert len(replica["shards"]) == 1


def test_an_agent_killed_while_its_engine_serves_costs_no_request(house):
    house.open()
    replica, pid = house.ready(), house.engine()
    seen, is_over = [], threading.Event()

    def go_on():
        while not is_over.is_set():
            seen.append(house.ask(tokens=20).status_code)

    client = threading.Thread(target=go_on)
    client.start()
    try:
        until(lambda: len(seen) > 3 or None, "answers")
        house.agent.kill()
        count = len(seen)
        until(lambda: len(seen) > count + 5 or None, "answers without an agent")
        house.agent.start()
        house.agent.wait_said("(shard_adopted)")
        until(lambda: len(house.deployment.ready("tiny")) == 1 or None, "it is ready")
        count = len(seen)
        until(lambda: len(seen) > count + 5 or None, "answers after the adoption")
    finally:
        is_over.set()
        client.join()
    assert set(seen) == {200}
    assert house.engine() == pid
    assert house.ready()["replica_id"] == replica["replica_id"]


def test_an_agent_killed_during_the_stop_is_followed_by_one_that_ends_it(house):
    house.open()
    house.ready()
    pid = house.engine()
    port = next(iter(house.work_dir.glob("shard-*.json"))).read_text()
    port = yaml.safe_load(port)["spec"]["http_port"]
    os.kill(pid, signal.SIGSTOP)  # so that it outlives the first signal
    house.unload()
    house.agent.wait_said("(shard_state .*state=draining)")
    house.agent.kill()
    assert is_alive(pid)
    house.agent.start()
    house.agent.wait_said("(shard_state .*state=stopped)")
    assert not is_alive(pid)
    assert list(house.work_dir.glob("shard-*")) == []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.2", port))


def test_a_frozen_engine_with_requests_is_started_anew_and_a_slow_one_is_not(house):
    house.open(hang_timeout=HANG_S)
    house.ready()
    pid, began = house.engine(), time.monotonic()
    with slowed(pid, for_s=SLOW_S + 1):
        answer = house.ask("ab " * (SLOW_PROMPT_BYTES // 3))
    assert answer.status_code == 200, answer.text
    assert time.monotonic() - began > SLOW_S, "too quick to prove anything"
    assert house.engine() == pid

    # Shorter, since the next engine reads it once more; slowed, so that it is under way by then.
    waiting = threading.Thread(target=house.ask, args=("cd " * (SLOW_PROMPT_BYTES // 6),))
    with slowed(pid, for_s=SLOW_S):
        waiting.start()
        time.sleep(1)
    os.kill(pid, signal.SIGSTOP)
    frozen_at = time.monotonic()
    house.deployment.parts["server"].wait_said("(endpoint_ejected)")
    house.agent.wait_said("(engine_hung)")
    house.agent.wait_said("(shard_state .*state=failed.*no progress)")
    assert not is_alive(pid)
    until(lambda: house.engine() != pid or None, "another engine", within_s=HUNG_WITHIN_S)
    house.ready()
    assert time.monotonic() - frozen_at < HUNG_WITHIN_S
    assert house.ask().status_code == 200
    waiting.join()
