"""``llmgw`` as a process: quick, honest about what is not installed, plain on a pipe."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import llmgw
from llmgw.cli import ctl_cmd, root, simulate_cmd
from tests.fakes import commands

_WITHOUT_EXTRAS = """
import sys
FOREIGN = {
    "ansible_runner", "cryptography", "fastapi", "google", "grpc", "httptools", "msgspec",
    "orjson", "prometheus_client", "pynvml", "starlette", "uvicorn", "uvloop", "xllamacpp",
}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FOREIGN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from llmgw.cli import root
sys.exit(root.main(sys.argv[1:]))
"""

_LISTING_MODULES = """
import sys
from llmgw.cli import root
root.main(sys.argv[1:])
print(sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
"""

_WITH_EXTRAS = [
    *((name,) for name, entry in root.COMMANDS.items() if entry.extras),
    *(("ctl", name) for name, entry in ctl_cmd.COMMANDS.items() if entry.extras),
    *(("simulate", name) for name in simulate_cmd.COMMANDS),
    ("keys", "list"),
    ("keys", "move-store"),
    ("users", "list"),
]


def run_without_extras(*args: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*args, python=("-c", _WITHOUT_EXTRAS))


@pytest.mark.parametrize("args", _WITH_EXTRAS, ids=" ".join)
def test_command_without_its_extra_says_what_to_install(args):
    done = run_without_extras(*args, "--help")
    assert done.returncode == 2
    assert f"'llmgw {' '.join(args)}' needs the package" in done.stderr
    assert "run: pip install 'llmgw[" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "args",
    [("--help",), ("--version",), ("ctl", "--help"), ("ctl", "status", "--help"), ("config", "-h")],
    ids=" ".join,
)
def test_base_installation_has_its_own_commands(args):
    done = run_without_extras(*args)
    assert done.returncode == 0
    assert done.stderr == ""


def test_version_is_the_last_word():
    assert commands.run("--version").stdout.split()[-1] == llmgw.__version__


def test_help_lists_every_command_but_the_hidden_ones():
    shown = commands.run("--help").stdout
    for name, entry in root.COMMANDS.items():
        assert (f"\n  {name} " in shown) is not entry.is_hidden


def test_help_names_the_exit_codes():
    assert "7 a check said no" in commands.run("--help").stdout


def test_no_colour_on_a_pipe():
    assert "\x1b" not in commands.run("--help").stdout


@pytest.mark.parametrize("args", [("--help",), ("ctl", "--help")], ids=" ".join)
def test_help_starts_in_a_few_times_the_interpreter_alone(args):
    """Of its work, 5 to 7 times; an import of a web or rpc package would make it 30 or more."""
    alone_s = min(_cpu_s("-c", "pass") for _ in range(5))
    help_s = min(_cpu_s("-m", "llmgw", *args) for _ in range(5))
    assert help_s < 20 * alone_s


def test_help_imports_nothing_that_it_does_not_show():
    loaded = commands.run("ctl", "--help", python=("-c", _LISTING_MODULES)).stderr
    for heavy in ("httpx", "pydantic", "rich", "grpc", "fastapi", "yaml"):
        assert f"'{heavy}'" not in loaded


def _cpu_s(*args: str) -> float:
    """Work, which other work on this machine does not make longer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *args],
        env=commands.environment(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_full_disk_is_said_in_one_line():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "llmgw", "config", "reference"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.stderr == "llmgw: No space left on device\n"
    assert ended.returncode == 1
