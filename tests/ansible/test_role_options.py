"""What a role takes is said once by value: its defaults and its argument specs agree."""

from __future__ import annotations

import pytest
import yaml
from playing import COLLECTIONS, ROOT

ROLES = sorted(
    path
    for folder in (COLLECTIONS / "ansible_collections/llmgw/fleet/roles", ROOT / "roles")
    for path in folder.iterdir()
    if path.is_dir()
)
TYPES = {"bool", "dict", "float", "int", "list", "path", "raw", "str"}


def read(path):
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


def options(role):
    """The options of all entry points, by name."""
    specs = read(role / "meta" / "argument_specs.yml")["argument_specs"]
    return {name: o for spec in specs.values() for name, o in (spec.get("options") or {}).items()}


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request):
    return request.param


def test_a_default_is_the_same_in_both_places(role):
    defaults = read(role / "defaults" / "main.yml")
    said = {
        name: option["default"] for name, option in options(role).items() if "default" in option
    }
    assert defaults == said


def test_whatever_has_no_default_is_required_or_may_be_left_out_on_purpose(role):
    defaults = read(role / "defaults" / "main.yml")
    for name, option in options(role).items():
        assert name in defaults or "default" not in option, name
        assert not (option.get("required") and "default" in option), name


def test_every_option_has_a_type_and_a_meaning(role):
    for name, option in options(role).items():
        assert option.get("type", "str") in TYPES, name
        assert "type" in option, name
        assert option.get("description"), name
        if option["type"] == "list":
            assert "elements" in option, name


def test_every_option_carries_the_name_of_its_role(role):
    wrong = [name for name in options(role) if not name.startswith(f"{role.name}_")]
    assert wrong == []


def test_every_file_of_tasks_is_short_enough_to_be_read_at_once(role):
    for path in (role / "tasks").glob("*.yml"):
        assert len(path.read_text().splitlines()) <= 80, path
