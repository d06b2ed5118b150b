"""Plays tasks with the real ``ansible-playbook``, as a controller does, and reads what they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / "collections"
WITHIN_S = 120


@dataclass(frozen=True)
class Told:
    """The result of one task on one host."""

    task: str
    outcome: str
    result: dict

    @property
    def changed(self) -> bool:
        """Whether the task says that it changed something."""
        return bool(self.result.get("changed"))

    def __getitem__(self, key):
        """One value of the result."""
        return self.result[key]


@dataclass(frozen=True)
class Played:
    """What a play printed, how it ended and what each task did, by its name."""

    rc: int
    output: str
    tasks: dict[str, Told]

    def __getitem__(self, task: str) -> Told:
        """The result of a task; the whole output when there is none."""
        assert task in self.tasks, self.output
        return self.tasks[task]


@dataclass(frozen=True)
class Controller:
    """A controller with a home of its own; nothing of this machine's user reaches it."""

    home: Path
    interpreter: str = sys.executable

    def play(
        self,
        *tasks: Mapping,
        inventory: str | Path = "localhost,",
        hosts: str = "localhost",
        environ: Mapping[str, str] | None = None,
        words: Sequence[str] = (),
        play: Mapping | None = None,
    ) -> Played:
        """Run the tasks in one play; it goes on after a failure only where a task says so."""
        book, told = self.home / "book.yml", self.home / "told.jsonl"
        told.unlink(missing_ok=True)
        content = {"hosts": hosts, "gather_facts": False, **(play or {}), "tasks": list(tasks)}
        book.write_text(yaml.safe_dump([content], sort_keys=False))
        done = self.run(
            "ansible-playbook",
            *("-i", str(inventory)),
            *("-e", f"ansible_python_interpreter={self.interpreter}"),
            *(() if hosts != "localhost" else ("-c", "local")),
            *words,
            str(book),
            environ={"TOLD": str(told), **(environ or {})},
        )
        lines = told.read_text().splitlines() if told.exists() else []
        read = [json.loads(line) for line in lines]
        return Played(
            rc=done.returncode,
            output=done.stdout + done.stderr,
            tasks={r["task"]: Told(r["task"], r["outcome"], r["result"]) for r in read},
        )

    def run(
        self, program: str, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One of Ansible's programs, to its end."""
        return subprocess.run(
            [str(Path(sys.executable).with_name(program)), *words],
            env=self._environment(environ or {}),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "told",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(self.home / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_PIPELINING": "true",
            **changes,
        }
