"""The collection as others get it: an archive that installs without a network."""

from __future__ import annotations

import json
import subprocess
import tarfile

import pytest
import yaml
from playing import COLLECTIONS, ROOT

FLEET = COLLECTIONS / "ansible_collections" / "llmgw" / "fleet"
PLUGINS = FLEET / "plugins"


def tracked(folder):
    """The files that a checkout has there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", str(folder)], cwd=ROOT, capture_output=True, check=True
    )
    return sorted(ROOT / name for name in listed.stdout.decode().split("\0") if name)


def modules():
    return sorted(path.stem for path in (PLUGINS / "modules").glob("*.py"))


@pytest.fixture
def archive(controller):
    done = controller.run("ansible-galaxy", "collection", "build", str(FLEET))
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = controller.home.glob("llmgw-fleet-*.tar.gz")
    return built


@pytest.mark.slow
def test_the_archive_installs_without_a_network_and_its_parts_work(controller, archive):
    installed = controller.home / "installed"
    done = controller.run(
        "ansible-galaxy",
        *("collection", "install", "--offline", "-p", str(installed), str(archive)),
        environ={"ANSIBLE_GALAXY_SERVER": "http://127.0.0.1:1", "ANSIBLE_COLLECTIONS_PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fleet = installed / "ansible_collections" / "llmgw" / "fleet"
    there = {str(path.relative_to(fleet)) for path in fleet.rglob("*") if path.is_file()}
    assert {"LICENSE", "README.md", "MANIFEST.json", "meta/runtime.yml"} <= there
    assert {f"plugins/modules/{name}.py" for name in modules()} <= there
    for role in (FLEET / "roles").iterdir():
        assert f"roles/{role.name}/tasks/main.yml" in there

    played = controller.play(
        {
            "name": "used",
            "ansible.builtin.assert": {"that": "'10.0.0.145/24' | llmgw.fleet.last_octet == 145"},
        },
        environ={"ANSIBLE_COLLECTIONS_PATH": str(installed)},
    )
    assert played.rc == 0, played.output


@pytest.mark.slow
def test_the_archive_holds_nothing_that_was_only_made_here(archive):
    with tarfile.open(archive) as tar:
        names = [member.name for member in tar.getmembers()]
        assert not [member.name for member in tar.getmembers() if member.issym()]
    assert not [n for n in names if "__pycache__" in n or "tests/output" in n or n.endswith(".pyc")]


def test_no_file_of_the_collection_lies_outside_of_it():
    assert [path for path in FLEET.rglob("*") if path.is_symlink()] == []


def test_the_collection_has_the_version_of_the_product():
    galaxy = yaml.safe_load((FLEET / "galaxy.yml").read_text())
    about = (ROOT / "runtime" / "llmgw" / "__init__.py").read_text()
    assert f'__version__ = "{galaxy["version"]}"' in about
    changes = yaml.safe_load((FLEET / "changelogs" / "changelog.yaml").read_text())
    assert galaxy["version"] in changes["releases"]
    assert (FLEET / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_nothing_in_the_collection_imports_the_product():
    found = [
        str(path)
        for path in FLEET.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith(("import llmgw", "from llmgw"))
    ]
    assert found == []


def test_sanity_leaves_out_the_licence_of_each_module_and_nothing_else():
    lists = {path.name: path.read_text() for path in (FLEET / "tests/sanity").glob("ignore-*.txt")}
    assert len(set(lists.values())) == 1
    lines = next(iter(lists.values())).splitlines()
    assert {line.split()[1] for line in lines} == {"validate-modules:missing-gplv3-license"}
    left_out = {line.split()[0] for line in lines}
    listed = {str(p.relative_to(FLEET)) for p in tracked(PLUGINS / "modules")}
    assert left_out == listed | {"plugins/inventory/nodes.py"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module", "filter", "test", "inventory"])
def test_every_plugin_tells_people_what_it_is_for(controller, kind):
    done = controller.run("ansible-doc", "-t", kind, "--list", "--json", "llmgw.fleet")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told
    assert all(told.values()), told


def test_the_readme_lists_every_module_filter_and_role_for_others():
    readme = (FLEET / "README.md").read_text()
    filters = [path.stem for path in (PLUGINS / "filter").glob("*.yml")]
    roles = [path.name for path in (FLEET / "roles").iterdir()]
    missing = [name for name in [*modules(), *filters, *roles] if f"`{name}`" not in readme]
    assert missing == []
