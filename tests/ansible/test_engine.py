"""An engine is put on a node by the real installer, from a bundle with a release-shaped archive."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile

import pytest

VERSION = "b10991"
ARCHIVE = {"x86_64": f"llama-{VERSION}-bin-ubuntu-x64.tar.gz"}.get(
    platform.machine(), f"llama-{VERSION}-bin-ubuntu-arm64.tar.gz"
)
PROGRAM = b"#!/bin/sh\necho 'version: 10991 (abc)'\n"
LOOK = {"check_mode": True, "diff": True}


@pytest.fixture
def bundle(tmp_path):
    """A folder as an unpacked bundle has it, with one llama.cpp release."""
    folder = tmp_path / "bundle" / "engines" / "llamacpp" / VERSION
    folder.mkdir(parents=True)
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        member = tarfile.TarInfo("build/bin/llama-server")
        member.size, member.mode = len(PROGRAM), 0o755
        archive.addfile(member, io.BytesIO(PROGRAM))
    digest = hashlib.sha256((folder / ARCHIVE).read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  {ARCHIVE}\n")
    return tmp_path / "bundle"


@pytest.fixture
def engine(tmp_path, bundle, llmgw):
    """Makes a task of the module."""

    def task(name="present", *, keywords=None, **options):
        given = {
            "name": "llamacpp",
            "dir": str(tmp_path / "engines"),
            "executable": llmgw,
            **options,
        }
        if given.get("state") != "checked":
            given = {"version": VERSION, "sources": [f"bundle={bundle}"], **given}
        return {"name": name, "llmgw.fleet.engine": given, **(keywords or {})}

    return task


def test_an_engine_is_installed_once_and_then_seen_to_run(controller, engine, tmp_path):
    played = controller.play(
        engine("look", keywords=LOOK),
        engine("nothing there", state="checked", fatal=False),
        engine("install", keywords={"diff": True}),
        engine("again"),
        engine("look again", keywords=LOOK),
        engine("check", state="checked"),
    )
    assert played.rc == 0, played.output
    changed = [name for name, told in played.tasks.items() if told.changed]
    assert changed == ["look", "install"]
    assert played["look"]["state"] == "wanted"
    assert played["nothing there"]["state"] == "failed"
    assert "is not installed" in played["nothing there"]["detail"]
    assert played["install"]["state"] == played["check"]["state"] == "ready"
    assert played["install"]["diff"]["before"] == {"version": None, "variant": None}
    assert played["install"]["diff"]["after"]["version"] == VERSION
    assert any("unpacking" in step for step in played["install"]["steps"])
    assert "10991" in played["check"]["detail"]
    assert played["again"]["binary"].endswith("llama-server")
    assert played["look again"]["diff"]["before"] == played["look again"]["diff"]["after"]


def test_looking_puts_nothing_on_the_disk(controller, engine, tmp_path):
    played = controller.play(engine("look", keywords=LOOK))
    assert played["look"].changed, played.output
    assert not (tmp_path / "engines").exists()


def test_a_file_that_is_not_what_was_written_down_is_refused(controller, engine):
    digests = {ARCHIVE: "ab" * 32}
    played = controller.play(
        engine("told", digests=digests, fatal=False), engine("fatal", digests=digests)
    )
    assert played["told"].outcome == "ok", played.output
    assert played["told"]["state"] == "failed"
    assert "abababababab" in played["told"]["detail"]
    assert played["fatal"].outcome == "failed"
    assert played["fatal"]["msg"].startswith(f"llamacpp {VERSION}")
    assert "abababababab" in played["fatal"]["msg"]


def test_a_broken_installation_is_named(controller, engine, tmp_path):
    controller.play(engine("install"))
    for program in (tmp_path / "engines").rglob("llama-server"):
        program.write_text("#!/bin/sh\necho 'no such symbol' >&2; exit 1\n")
    played = controller.play(engine("check", state="checked"))
    assert played["check"].outcome == "failed"
    assert "llamacpp b10991" in played["check"]["msg"]
    assert "no such symbol" in played["check"]["msg"]


def test_words_that_are_wrong_are_told_in_the_installers_own(controller, engine):
    played = controller.play(
        engine("source", sources=["ftp://x"], keywords={"ignore_errors": True}),
        engine("version", version=None),
    )
    assert "'ftp://x' is no source" in played["source"]["msg"]
    assert "version" in played["version"]["msg"]


def test_a_blank_machine_is_looked_at_without_a_failure(controller, engine, tmp_path):
    executable = str(tmp_path / "nowhere" / "llmgw")
    played = controller.play(
        engine("look", executable=executable, keywords=LOOK),
        engine("check", state="checked", executable=executable, keywords=LOOK),
    )
    assert [played["look"].changed, played["check"].changed] == [True, False], played.output
