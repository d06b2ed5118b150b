"""The tree says where things live: names are found once, floors hold, nothing names a machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime" / "llmgw"
GENERATED = PACKAGE / "rpc" / "v1"

AT_THE_TOP = {
    "LICENSE",
    "Makefile",
    "README.md",
    "collections",
    "docs",
    "inventories",
    "molecule",
    "playbooks",
    "proto",
    "pyproject.toml",
    "roles",
    "runtime",
    "tests",
}

NAMED_FOR_THEIR_PLACE = {"__init__", "__main__", "logs", "ports"}
"""``ports.py`` holds what a room asks of others, wherever one asks; logs are ours or a node's."""

ROOMS_OF_NOUNS = ("api/routers", "api/schemas", "agent/engines", "serve")
"""Rooms whose modules are one a noun, an engine or a role, named like their siblings elsewhere."""


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def modules():
    return [file for file in PACKAGE.rglob("*.py") if GENERATED not in file.parents]


def test_the_root_holds_what_the_floor_plan_names():
    names = {file.relative_to(ROOT).parts[0] for file in tracked()}
    assert {name for name in names if not name.startswith(".")} <= AT_THE_TOP


def test_a_module_is_found_by_its_name_alone():
    places = defaultdict(list)
    for file in modules():
        place = file.relative_to(PACKAGE)
        if file.stem not in NAMED_FOR_THEIR_PLACE and place.parent.as_posix() not in ROOMS_OF_NOUNS:
            places[file.stem].append(str(place))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_holds_state_or_works_when_it_is_imported():
    loose = {
        f"{file.relative_to(PACKAGE)}:{statement.lineno}"
        for file in modules()
        if file.name != "__main__.py"
        for statement in ast.parse(file.read_text()).body
        if is_work(statement)
    }
    assert loose == set()


def is_work(statement):
    """A statement that does something; hanging a command into its group is how click is told."""
    if isinstance(statement, ast.Expr):
        called = getattr(getattr(statement.value, "func", None), "attr", "")
        return not isinstance(statement.value, ast.Constant) and called != "add_command"
    return isinstance(statement, (ast.For, ast.While, ast.With, ast.Delete, ast.Global))


def test_the_tree_holds_no_compiled_module_which_would_hide_its_source():
    assert [str(file) for file in (ROOT / "runtime").rglob("*.so")] == []


def compiled():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    return [ROOT / name for name in build["targets"]["wheel"]["hooks"]["mypyc"]["include"]]


def test_every_module_that_is_to_be_compiled_exists():
    assert compiled()
    assert [str(file) for file in compiled() if not file.is_file()] == []


def test_what_is_compiled_names_each_exception_of_a_function_anew():
    """The compiler gives a name one type, the first one's, and refuses any other as it runs."""
    twice = [
        f"{file.name}: {function.name} catches {name} twice"
        for file in compiled()
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name, count in Counter(
            node.name
            for node in ast.walk(function)
            if isinstance(node, ast.ExceptHandler) and node.name
        ).items()
        if count > 1
    ]
    assert twice == []


def test_floors_hold():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


NAMES_OF_MACHINES = re.compile(
    r"/(?:work|home|root|tmp/(?!llmgw))/"
    r"|https?://[^\s/]*(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com)"
    r"|index[-_]url\s*="
)


def test_no_file_names_a_machine_or_a_registry():
    found = {
        f"{file.relative_to(ROOT)}:{number}"
        for file in tracked()
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if file != Path(__file__) and NAMES_OF_MACHINES.search(line)
    }
    assert found == set()


def test_no_field_that_may_hold_a_secret_is_in_a_repr():
    shown = [
        f"{path.relative_to(PACKAGE)}:{line.lineno} {line.target.id}"
        for path in PACKAGE.rglob("*.py")
        for line in ast.walk(ast.parse(path.read_text()))
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if line.target.id in {"api_key", "api_keys", "env", "environ", "password", "token"}
        if ast.unparse(line.annotation) != "SecretReference"
        if "repr=False" not in ast.unparse(line)
    ]
    assert shown == []
