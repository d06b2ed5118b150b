"""A whole deployment as real processes: a server, agents and their engines, under one folder.

Each process carries a mark in its environment that engines and workers inherit, so that ``close``
finds and ends everything, also what was orphaned on purpose. A part keeps its settings and ports
over a restart.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from llmgw.control.recorder import journal, replaying
from tests.fakes.engines import free_port

START_WITHIN_S = 30.0
CLIENTS = r"^clients +(\S+)"
"""The line that a server says when it serves."""
_MARK = "DEPLOYMENT_MARK"


def llmgw(*words: str | Path) -> list[str]:
    """The command line of our own program."""
    return [sys.executable, "-m", "llmgw", *map(str, words)]


def until(is_so: Callable[[], Any], what: str, *, within_s: float = START_WITHIN_S) -> Any:
    """Wait for something that becomes true, and return it."""
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(httpx.TransportError):
            if (value := is_so()) not in (None, False):
                return value
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


class Part:
    """One process that can be killed and started again with the same words."""

    def __init__(self, name: str, words: Sequence[str], *, folder: Path, mark: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._words = list(words)
        self._environ = {**os.environ, _MARK: mark}
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def start(self) -> None:
        """Start it; what it prints is added to its log."""
        with self.log.open("ab") as output:
            self._began = output.tell()
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environ,
                start_new_session=True,
            )

    def wait_said(self, pattern: str, *, within_s: float = START_WITHIN_S) -> str:
        """The first group of a pattern, as soon as the log of this very process has it."""
        what = f"{self.name} says {pattern!r}"
        return until(lambda: self._said(pattern), what, within_s=within_s)

    def kill(self) -> None:
        """As if the machine had no mercy."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        assert self._process is not None
        self._process.terminate()

    def stop(self, *, within_s: float = 20.0) -> int:
        """SIGTERM; the exit code."""
        self.ask_to_stop()
        return self.wait(within_s=within_s)

    def wait(self, *, within_s: float = 20.0) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(within_s)

    def _said(self, pattern: str) -> str | None:
        said = self.log.read_bytes()[self._began :].decode(errors="replace")
        found = re.findall(pattern, said, re.MULTILINE)
        assert self._process is not None
        code = self._process.poll()
        assert found or code is None, f"{self.name} ended with {code}:\n{self.output}"
        return found[-1] if found else None


@dataclass(frozen=True)
class Gateway:
    """A gateway apart: its process, and where it is met."""

    part: Part
    port: int
    admin_port: int
    state_dir: Path
    run_dir: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        """Whether it says so at both doors."""
        ports = (self.port, self.admin_port)
        answers = [httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5) for port in ports]
        return all(one.status_code == 200 for one in answers)


class Deployment:
    """A server, and agents on addresses of the loopback network, all below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._mark = str(root)
        self._ports = {name: free_port() for name in ("listen", "admin_listen", "agent_listen")}
        self._network = _own_network()
        self.parts: dict[str, Part] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['listen']}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._ports['admin_listen']}"

    @property
    def agent_address(self) -> str:
        return f"127.0.0.1:{self._ports['agent_listen']}"

    def address(self, number: int) -> str:
        """Where the engines of node ``number`` listen."""
        return f"{self._network}.{number + 1}"

    def places(self) -> dict[str, Any]:
        """The server's ports and folders, as settings; a stop is quick."""
        return {
            **{name: f"127.0.0.1:{port}" for name, port in self._ports.items()},
            "state_dir": str(self.root / "state"),
            "run_dir": str(self.root / "run"),
            "gateway": {"drain_delay_s": 0, "shutdown_grace_s": 5},
        }

    def server(self, **settings: Any) -> Part:
        """Start the server with these settings over quick ones, and wait until it serves."""
        quick = {
            **self.places(),
            "control": {
                "interval": 1,
                "base_backoff": 0.5,
                "expect_nodes": ["node1", "node2"],
            },
        }
        part = self._part("server", "server", {**quick, **settings})
        part.start()
        part.wait_said(CLIENTS)
        return part

    def agent(self, number: int, *, within: Sequence[str] = (), **settings: Any) -> Part:
        """Start the agent of node ``number`` on an address of its own.

        ``within`` are words that start a command elsewhere, such as in a network namespace.
        """
        name = f"node{number}"
        quick = {
            "server": f"http://{self.agent_address}",
            "node_id": name,
            "mgmt_addr": self.address(number),
            "heartbeat_interval": 1,
            "reconnect_base": 0.2,
            "reconnect_max": 1,
            "weights_dir": str(self.root / name / "weights"),
            "supervisor": {
                "work_dir": str(self.root / name / "work"),
                "health_interval": 0.2,
                "stop_timeout": 5,
            },
            "discovery": {"skip_gpus": True},
        }
        part = self._part(name, "agent", {**quick, **settings}, within=within)
        part.start()
        return part

    def gateway(self, name: str = "gw01", **settings: Any) -> Gateway:
        """Start a gateway as on a host of its own, and wait until it takes connections."""
        ports = {key: free_port() for key in ("listen", "admin_listen")}
        folders = {"state_dir": self.root / name / "state", "run_dir": self.root / name / "run"}
        quick = {
            "server": f"http://{self.agent_address}",
            "name": name,
            "reconnect_base": 0.2,
            "reconnect_max": 1,
            "gateway": {"drain_delay_s": 0, "shutdown_grace_s": 5},
            **{key: f"127.0.0.1:{port}" for key, port in ports.items()},
            **{key: str(folder) for key, folder in folders.items()},
        }
        part = self._part(name, "gateway", {**quick, **settings})
        part.start()
        part.wait_said(CLIENTS)
        return Gateway(part, port=ports["listen"], admin_port=ports["admin_listen"], **folders)

    def run(self, name: str, *words: str | Path) -> Part:
        """Start any other command of ours."""
        part = Part(name, llmgw(*words), folder=self.root, mark=self._mark)
        self.parts[name] = part
        part.start()
        return part

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command against the admin API."""
        environ = {**os.environ, "LLMGW_CTL_URL": self.admin_url}
        command = llmgw("ctl", *words)
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def show(self, noun: str) -> Any:
        """What the admin API shows of ``nodes``, ``replicas``, ``models`` or ``status``."""
        answer = httpx.get(f"{self.admin_url}/api/v1/{noun}", timeout=5)
        return answer.raise_for_status().json()

    def figures(self) -> dict[str, float]:
        """Each metric of the gateway, summed over its labels."""
        sums: dict[str, float] = {}
        for sample in self._samples():
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums

    def routed(self) -> set[str]:
        """The replicas that the gateway sends requests to."""
        name = "llmgw_endpoint_inflight"
        return {s.labels["replica"] for s in self._samples() if s.name == name}

    def ready(self, model: str) -> list[dict[str, Any]]:
        """The replicas of a model that serve."""
        replicas = self.show("replicas")["replicas"]
        return [r for r in replicas if r["model"] == model and r["state"] == "ready"]

    def wait_ready(self, model: str, count: int, *, within_s: float = START_WITHIN_S) -> None:
        """Return once so many replicas of a model serve, and the gateway knows it of each."""

        def serve() -> bool:
            ids = {replica["replica_id"] for replica in self.ready(model)}
            # Routes come with the next pass, which is a moment after the report of a shard.
            return len(ids) == count and ids <= self.routed()

        until(serve, f"{count} replicas of {model} are ready", within_s=within_s)

    def engines(self) -> dict[str, int]:
        """Pids of the engines that run now, by the address that they listen on."""
        flags = {"sim-engine": "--listen", "llama-server": "--port"}
        return {
            words[words.index(flag) + 1]: pid
            for pid, words in self._processes()
            for command, flag in flags.items()
            if command in words
        }

    def workers(self, *, run_dir: Path | None = None) -> set[int]:
        """Pids of the gateway workers that run now, or of those of one run folder."""
        return {
            pid
            for pid, words in self._processes()
            if "--listener-fd" in words and (run_dir is None or str(run_dir) in words)
        }

    def close(self) -> None:
        """End everything that was started here or by what was started here."""
        for part in self.parts.values():
            with contextlib.suppress(AssertionError):
                part.kill()
        for _ in range(50):
            left = [pid for pid, _ in self._processes()]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        raise AssertionError(f"processes that cannot be ended: {left}")

    def replay(self) -> None:
        """See that all passes of the control plane are decided once more as they were."""
        if journal.files(self.root / "state" / journal.FOLDER):
            replays = map(replaying.replay, journal.read(self.root / "state"))
            differing = [replay.differences() for replay in replays if not replay.is_same]
            assert not differing, differing

    def logs(self) -> str:
        """All that the parts have printed, without the lines of requests that went well."""
        lines = []
        for part in self.parts.values():
            lines += [f"--- {part.name}", *part.output.splitlines()]
        return "\n".join(line for line in lines if " state=completed " not in line)

    def _part(
        self,
        name: str,
        command: str,
        settings: Mapping[str, Any],
        *,
        within: Sequence[str] = (),
    ) -> Part:
        file = self.root / f"{name}.yaml"
        file.write_text(yaml.safe_dump(settings))
        words = [*within, *llmgw(command, "--config", file)]
        self.parts[name] = Part(name, words, folder=self.root, mark=self._mark)
        return self.parts[name]

    def _samples(self) -> Iterator[Sample]:
        page = httpx.get(f"{self.admin_url}/metrics", timeout=5).raise_for_status().text
        for family in text_string_to_metric_families(page):
            yield from family.samples

    def _processes(self) -> Iterator[tuple[int, list[str]]]:
        """Living processes with our mark, and their words."""
        mark = f"{_MARK}={self._mark}".encode()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().decode().split("\0")
                    if words != [""]:
                        yield int(folder.name), words


def _own_network() -> str:
    """The first three numbers of loopback addresses that no deployment beside this one uses.

    All of them begin at the same port, so on one address two engines would meet there: both find
    it free while they load, and one of them dies of the other.
    """
    draw = random.SystemRandom()
    return f"127.{draw.randint(1, 254)}.{draw.randint(0, 255)}"


@pytest.fixture
def deployment(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """A deployment that ends with the test; its logs are shown when the test fails."""
    made = Deployment(tmp_path)
    yield made
    made.close()  # at once: whoever interrupts the tests may not wait for the logs of a long one
    made.replay()
    print(made.logs())  # noqa: T201 - pytest shows it where the test failed
