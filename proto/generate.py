"""Write the Python code of every ``.proto`` file: ``python proto/generate.py [OUT]``.

``make proto`` calls it, and so does the layout test that compares what is checked in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLUGINS = ("--python_out", "--grpc_python_out", "--mypy_out", "--mypy_grpc_out")


def protoc(*flags: str) -> None:
    """Run the compiler of the pinned grpcio-tools over all our files."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    sources = sorted(str(f) for f in HERE.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(HERE), *flags, *sources]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"protoc refused:\n{done.stderr}")


def generate(out: Path) -> None:
    """Messages, service and their type stubs, under ``out``."""
    protoc(*(f"{flag}={out}" for flag in PLUGINS))


def describe(out: Path) -> None:
    """The messages' descriptor set; each release's own stays in ``tests/data/descriptors``."""
    protoc(f"--descriptor_set_out={out}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "runtime")
