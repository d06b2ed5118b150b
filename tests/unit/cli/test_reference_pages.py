"""The reference pages name every command, exit code and route."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.api.application import create_app
from llmgw.cli import ctl_cmd, model_cmd, root
from llmgw.cli.failures import ExitCode
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of

_REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
_COMMANDS = (_REFERENCE / "commands.md").read_text()
_ROUTES = (_REFERENCE / "admin-api.md").read_text()

_NAMES = [
    *(name for name, entry in root.COMMANDS.items() if not entry.is_hidden and name != "ctl"),
    *(f"ctl {name}" for name in ctl_cmd.COMMANDS),
    *(f"ctl model {name}" for name in model_cmd.COMMANDS),
]


@pytest.mark.parametrize("name", _NAMES)
def test_command_has_a_line(name):
    assert f"\n| `llmgw {name}" in _COMMANDS


@pytest.mark.parametrize("code", ExitCode)
def test_exit_code_has_a_line(code):
    assert f"\n| {code.value} | " in _COMMANDS


def test_route_has_a_line():
    control = control_of(FakeFleet())
    described = create_app(readiness=FakeReadiness(), control=control).openapi()["paths"]
    routes = [f"{verb.upper()} {path}" for path, verbs in described.items() for verb in verbs]
    missing = [route for route in routes if f"\n| `{route}`" not in _ROUTES]
    assert missing == []
