"""A host's wheels are built once a content, for that host's Python, and never touched by accident.

pip is a stand-in that brings what a test put into its index; the stories ask the real one.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from ansible_collections.llmgw.fleet.plugins.module_utils import _wheelhouse, _wheels
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from playing import ROOT

TAG = "cp313-manylinux-x86_64"
INSTALLED = ("agent", "gateway", "server", "local")

PIP = """\
#!{python}
# Stands in for a Python with pip: writes the wheels that a test put into ``index``.
import os, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "-c":  # for which hosts it could compile
    print(here.joinpath("compiles").read_text() if here.joinpath("compiles").exists() else "")
    sys.exit()
words = sys.argv[3:]
with (here / "calls").open("a") as calls:
    print(*words, file=calls)
if "wheel" in words:
    target = pathlib.Path(words[words.index("--wheel-dir") + 1])
    names = ["llmgw-0.1.0-py3-none-any.whl"]
    if os.environ.get("HATCH_BUILD_HOOK_ENABLE_MYPYC"):
        here.joinpath("compiled").write_text(words[-1])
        if here.joinpath("breaks").exists():
            sys.exit("error: command 'cc' failed")
else:
    target = pathlib.Path(words[words.index("--dest") + 1])
    brings = here.joinpath("brings").read_text().split()
    brings += [word.split(">")[0] for word in words if ">" in word]
    names = [f.name for f in (here / "index").glob("*.whl") if f.name.split("-")[0] in brings]
target.mkdir(exist_ok=True)
for name in names:
    shutil.copy(here / "index" / name, target / name)
"""


def wheel(folder, name, version="1.0", *requires):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    head = "".join(f"Requires-Dist: {line}\n" for line in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\n{head}\nText")
    return path


@pytest.fixture
def workshop(tmp_path):
    """A checkout, a pip that brings what a test says, and a folder for archives."""
    source = tmp_path / "checkout"
    package = source / "runtime" / "llmgw"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (source / "pyproject.toml").write_text("[project]\n")
    pip = tmp_path / "pip" / "python"
    pip.parent.mkdir()
    pip.write_text(PIP.format(python=sys.executable))
    pip.chmod(0o755)
    index = tmp_path / "pip" / "index"
    wheel(index, "llmgw", "0.1.0", "click", 'grpcio>=1; extra == "agent"')
    for name in ("click", "grpcio", "pip"):
        wheel(index, name)
    (tmp_path / "pip" / "brings").write_text("llmgw click grpcio pip")
    return {"source": str(source), "dest": str(tmp_path / "kept"), "python": str(pip)}


def made(controller, options, *, words=(), **changes):
    options = {"tag": TAG, "extras": ["agent"], **options, **changes}
    told = controller.play({"name": "made", "llmgw.fleet.wheelhouse": options}, words=words)
    return told["made"]


def names(archive):
    with tarfile.open(archive) as content:
        return content.getnames()


def test_an_archive_holds_every_wheel_its_digests_and_pip_to_install_them(controller, workshop):
    told = made(controller, workshop)
    assert told.changed
    assert told["version"] == "0.1.0"
    with tarfile.open(told["archive"]) as content:
        sums = content.extractfile("SHA256SUMS").read().decode()
        for line in sums.splitlines():
            digest, name = line.split()
            assert hashlib.sha256(content.extractfile(name).read()).hexdigest() == digest
        wanted = content.extractfile("requirements.txt").read().decode()
    assert "pip.whl" in sums
    assert [line.split("==")[0] for line in wanted.splitlines()] == ["click", "grpcio", "llmgw"]
    assert wanted.count("--hash=sha256:") == 3


def test_the_same_content_is_built_once_and_a_changed_file_anew(controller, workshop):
    first = made(controller, workshop)
    again = made(controller, workshop)
    assert not again.changed
    assert again["archive"] == first["archive"]
    (Path(workshop["source"]) / "runtime" / "llmgw" / "new.py").write_text("x = 1\n")
    assert made(controller, workshop)["identity"] != first["identity"]


def test_every_kind_of_host_has_an_archive_of_its_own(controller, workshop):
    archives = {
        made(controller, workshop)["archive"],
        made(controller, workshop, tag="cp311-manylinux-x86_64")["archive"],
        made(controller, workshop, extras=["agent", "server"])["archive"],
    }
    assert len(archives) == 3


def test_a_gateway_is_compiled_for_hosts_like_the_controller(controller, workshop):
    beside = Path(workshop["python"]).parent
    (beside / "compiles").write_text(TAG)
    plain = made(controller, workshop, extras=["server"], compiled=False)
    assert not plain["compiled"]
    told = made(controller, workshop, extras=["server"])
    assert told["compiled"]
    assert told["archive"] != plain["archive"]
    assert (beside / "compiled").read_text() != workshop["source"], "not within the checkout"
    again = made(controller, workshop, extras=["server"])
    assert not again.changed
    assert again["compiled"]
    assert made(controller, {"bundle": told["archive"]}, extras=["server"])["compiled"]


@pytest.mark.parametrize(
    ("compiles", "extras"),
    [("", ["server"]), ("cp311-manylinux-x86_64", ["server"]), (TAG, ["agent"])],
    ids=["no compiler", "another Python", "no gateway there"],
)
def test_any_other_host_gets_it_uncompiled(controller, workshop, compiles, extras):
    (Path(workshop["python"]).parent / "compiles").write_text(compiles)
    assert not made(controller, workshop, extras=extras)["compiled"]


def test_a_compiler_that_fails_is_quoted_with_the_way_without_it(controller, workshop):
    beside = Path(workshop["python"]).parent
    (beside / "compiles").write_text(TAG)
    (beside / "breaks").write_text("")
    told = made(controller, workshop, extras=["server"])
    assert "the gateway was not compiled" in told["msg"]
    assert "command 'cc' failed" in told["msg"]
    assert "runtime_compiled" in told["msg"]


def test_only_a_few_old_archives_stay(controller, workshop):
    for number in range(5):
        (Path(workshop["source"]) / "README.md").write_text(str(number))
        made(controller, workshop)
    assert len(list(Path(workshop["dest"]).glob("*.tar"))) == 3


def test_a_trial_run_names_the_archive_and_makes_nothing(controller, workshop):
    told = made(controller, workshop, words=("--check", "--diff"))
    assert told.changed
    assert told["archive"].endswith(".tar")
    assert not Path(workshop["dest"]).exists()


def test_what_only_the_hosts_python_needs_is_brought_too(controller, workshop):
    index = Path(workshop["python"]).parent / "index"
    wheel(index, "click", "1.0", 'backport>=2; python_version >= "3.13"')
    wheel(index, "backport", "2.0")
    told = made(controller, workshop)
    assert "wheels/backport-2.0-py3-none-any.whl" in names(told["archive"])
    older = made(controller, workshop, tag="cp312-manylinux-x86_64")
    assert "wheels/backport-2.0-py3-none-any.whl" not in names(older["archive"])


def test_a_pip_that_fails_is_quoted(controller, workshop):
    Path(workshop["python"]).write_text("#!/bin/sh\necho ERROR: no matching grpcio >&2\nexit 1\n")
    told = made(controller, workshop)
    assert told.outcome == "failed"
    assert "failed on the controller: ERROR: no matching grpcio" in told["msg"]
    assert list(Path(workshop["dest"]).glob("*.tar")) == []


def test_a_folder_that_is_no_checkout_is_named(controller, workshop):
    told = made(controller, workshop, source="/nowhere")
    assert "/nowhere is no checkout of llmgw" in told["msg"]


def test_a_checkout_without_a_version_is_named(controller, workshop):
    (Path(workshop["source"]) / "runtime" / "llmgw" / "__init__.py").write_text("x = 1\n")
    assert "__init__.py names no version" in made(controller, workshop)["msg"]


def test_a_python_that_is_not_there_is_named(controller, workshop):
    told = made(controller, workshop, python="/nowhere/python")
    assert "/nowhere/python cannot be run on the controller" in told["msg"]


def test_a_build_of_no_wheel_is_named(controller, workshop):
    (Path(workshop["python"]).parent / "index" / "llmgw-0.1.0-py3-none-any.whl").unlink()
    Path(workshop["python"]).write_text("#!/bin/sh\nexit 0\n")
    assert "was built into nothing and not into one wheel" in made(controller, workshop)["msg"]


def test_what_no_index_has_is_named_with_whom_it_is_for(controller, workshop):
    wheel(Path(workshop["python"]).parent / "index", "click", "1.0", "unheard>=2")
    told = made(controller, workshop)
    assert f"pip brings everything but unheard>=2 for {TAG}" in told["msg"]
    assert list(Path(workshop["dest"]).iterdir()) == [Path(workshop["dest"]) / ".lock"]


def test_a_file_that_is_no_wheel_is_named(controller, workshop):
    index = Path(workshop["python"]).parent / "index"
    (index / "click-1.0-py3-none-any.whl").write_text("not a zip file")
    told = made(controller, workshop)
    assert "click-1.0-py3-none-any.whl, which pip brought, is no wheel" in told["msg"]


def test_a_folder_that_takes_no_archive_is_named(controller, workshop, tmp_path):
    (tmp_path / "file").write_text("")
    told = made(controller, workshop, dest=str(tmp_path / "file"))
    assert str(tmp_path / "file") in told["msg"]


def test_a_controller_that_lacks_a_library_is_told_which(controller, workshop, tmp_path):
    hidden = tmp_path / "hidden" / "packaging"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")
    task = {"name": "made", "llmgw.fleet.wheelhouse": {"tag": TAG, **workshop}}
    told = controller.play({**task, "environment": {"PYTHONPATH": str(hidden.parent)}})["made"]
    assert "Failed to import the required Python library (packaging)" in told["msg"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "one of the following is required: source, bundle"),
        ({"source": "/x"}, "dest"),
        ({"source": "/x", "dest": "/y", "bundle": "/z"}, "mutually exclusive: source|bundle"),
        ({"bundle": "/z", "tag": "cp27"}, "'cp27' is no tag such as cp312-manylinux-x86_64"),
    ],
    ids=["neither", "nowhere-to-keep", "both", "no-tag"],
)
def test_options_that_cannot_be_meant_are_refused(controller, options, said):
    assert said in made(controller, options)["msg"]


def test_a_bundle_from_elsewhere_needs_no_pip(controller, workshop, tmp_path):
    archive = made(controller, workshop)["archive"]
    elsewhere = tmp_path / "bundle"
    elsewhere.mkdir()
    shutil.copy(archive, elsewhere)
    told = made(controller, {"bundle": str(elsewhere)})
    assert not told.changed
    assert told["version"] == "0.1.0"


def test_a_bundle_for_other_hosts_is_refused_with_what_is_needed(controller, workshop):
    archive = made(controller, workshop)["archive"]
    folder = made(controller, {"bundle": str(Path(archive).parent)}, tag="cp312-manylinux-x86_64")
    assert "has no llmgw-*-cp312-manylinux-x86_64-agent-*.tar" in folder["msg"]
    file = made(controller, {"bundle": archive}, tag="cp312-manylinux-x86_64")
    assert "this host needs cp312-manylinux-x86_64-agent" in file["msg"]


def test_any_other_file_is_no_bundle(controller, tmp_path):
    file = tmp_path / "x.tar"
    file.write_bytes(b"no archive")
    assert "is no wheelhouse" in made(controller, {"bundle": str(file)})["msg"]


def test_an_archive_of_something_else_is_no_bundle(controller, tmp_path):
    file = tmp_path / "x.tar"
    (tmp_path / "wheelhouse.json").write_text('{"version": "1"}')
    with tarfile.open(file, "w") as archive:
        archive.add(tmp_path / "wheelhouse.json", "wheelhouse.json")
    told = made(controller, {"bundle": str(file)})
    assert "its wheelhouse.json lacks extras, identity, tag" in told["msg"]


def test_a_folder_with_two_bundles_for_a_host_is_ambiguous(controller, workshop):
    archive = Path(made(controller, workshop)["archive"])
    shutil.copy(archive, archive.with_name(archive.name.replace("0.1.0", "0.2.0")))
    told = made(controller, {"bundle": str(archive.parent)})
    assert f"has 2 llmgw-*-{TAG}-agent-*.tar: it must have one" in told["msg"]


def test_a_pip_that_does_not_end_is_given_up(workshop, monkeypatch):
    Path(workshop["python"]).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(_wheelhouse, "_PIP_TIMEOUT_S", 0.2)
    asked = {key: Path(workshop[key]) for key in ("source", "dest")}
    bench = _wheelhouse.Workshop(**asked, python=workshop["python"])
    with pytest.raises(_wheelhouse.WheelhouseError, match="see that the package index"):
        bench.wheelhouse(_wheels.target(TAG))


def test_one_archive_is_made_at_a_time_and_a_lock_that_stays_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(_wheelhouse, "_LOCK_TIMEOUT_S", 0)
    lock = tmp_path / ".lock"
    with (
        _wheelhouse._alone(lock),
        pytest.raises(_wheelhouse.WheelhouseError, match="another process has held"),
        _wheelhouse._alone(lock),
    ):
        pass


def test_wheels_for_a_newer_libc_than_hosts_have_are_not_asked_for():
    flags = _wheels.pip_flags(_wheels.target(TAG))
    assert "manylinux_2_34_x86_64" in flags
    assert "manylinux_2_35_x86_64" not in flags


@pytest.mark.parametrize("tag", ["cp313-musllinux-x86_64", "cp27-manylinux-x86_64", "x"])
def test_a_tag_that_is_none_is_refused(tag):
    with pytest.raises(ValueError, match="is no tag"):
        _wheels.target(tag)


def test_a_pin_holds_where_its_python_runs():
    pins = (
        "# why\nclick==8\n"
        "core==2.19 ; python_version < '3.12'\ncore==2.21 ; python_version >= '3.12'\n"
    )
    older, newer = _wheels.target("cp311-manylinux-x86_64"), _wheels.target(TAG)
    assert _wheels.pinned(pins, older) == "click==8\ncore==2.19\n"
    assert _wheels.pinned(pins, newer) == "click==8\ncore==2.21\n"


@pytest.mark.parametrize("tag", ["cp311-manylinux-x86_64", "cp313-manylinux-aarch64"])
def test_whatever_the_project_asks_for_is_pinned_and_meets_it(tag):
    pins = (ROOT / "runtime" / "constraints.txt").read_text()
    pinned = dict(
        line.split("==") for line in _wheels.pinned(pins, _wheels.target(tag)).splitlines()
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(r for e in INSTALLED for r in extras[e])]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        assert name == "llmgw" or requirement.specifier.contains(pinned[name]), requirement
