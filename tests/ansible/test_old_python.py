"""Modules run on the oldest Python that the collection promises, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from playing import Controller

PROMISED = "python3.9"


def oldest():
    """The path of that Python; pyenv keeps it in a folder of its own until it is chosen."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    kept = sorted(pyenv.glob(f"versions/3.9*/bin/{PROMISED}"))
    for candidate in [shutil.which(PROMISED), *map(str, kept)]:
        asked = [candidate or "false", "-c", "import sys"]
        if subprocess.run(asked, capture_output=True, check=False, timeout=60).returncode == 0:
            return candidate
    return None


def test_every_kind_of_module_runs_on_it(tmp_path, admin, llmgw):
    python = oldest()
    if python is None:
        pytest.skip(f"{PROMISED} is not on this machine")
    admin.add("node05")
    settings = tmp_path / "agent.yaml"
    settings.write_text("server: http://127.0.0.1:7443\n")
    files = {"path": "agent.pem", "key_path": "agent-key.pem", "ca_path": "ca.pem"}
    played = Controller(home=tmp_path, interpreter=python).play(
        {"name": "seen", "llmgw.fleet.node_info": {"url": admin.url}},
        {"name": "cordon", "llmgw.fleet.node": {"url": admin.url, "name": "node05"}},
        {
            "name": "checked",
            "llmgw.fleet.config_check": {"path": str(settings), "executable": llmgw},
        },
        {
            "name": "asked",
            "llmgw.fleet.certificate_request": {
                "name": "node05",
                "executable": llmgw,
                **{key: str(tmp_path / name) for key, name in files.items()},
            },
        },
        {
            "name": "engine",
            "llmgw.fleet.engine": {
                "name": "llamacpp",
                "state": "checked",
                "fatal": False,
                "dir": str(tmp_path / "engines"),
                "executable": llmgw,
            },
        },
    )
    assert played.rc == 0, played.output
    assert len(played.tasks) == 5
