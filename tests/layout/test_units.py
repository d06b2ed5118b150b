"""One unit, written twice: in the runtime and in the Ansible roles, which may not import it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.serve import unit_files

ROLES = Path(__file__).parents[2] / "collections/ansible_collections/llmgw/fleet/roles"


@pytest.mark.parametrize(
    ("role", "unit"),
    [("agent", "llmgw-agent"), ("control", "llmgw-server"), ("gateway", "llmgw-gateway")],
)
def test_a_role_with_nothing_set_installs_the_unit_of_the_runtime(role, unit):
    text = (ROLES / role / "templates" / f"{unit}.service.j2").read_text()
    assert without_head(text) == without_head(unit_files.text(unit))


def without_head(text):
    """Without the line that says who wrote it."""
    return text.partition("\n")[2]
