"""What archives may not do: nothing is ever written, or linked to, outside their folder."""

from __future__ import annotations

import gzip
import tarfile

import pytest

from llmgw.agent.install.unpacking import Caps, Unpacked
from llmgw.errors import Denied, Invalid
from tests.fakes.engine_releases import archive, llamacpp, member

SYM, HARD, DEVICE, FIFO, FOLDER = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
)


@pytest.fixture
def unpack(tmp_path):
    folder = tmp_path / "build"
    folder.mkdir()
    unpacked = Unpacked(folder)

    def run(*entries, content=None, caps=None):
        file = tmp_path / "x.tar.gz"
        file.write_bytes(archive(*entries) if content is None else content)
        (unpacked if caps is None else Unpacked(folder, caps=caps)).add(file)
        return folder

    return run


def test_files_folders_and_links_come_out_as_they_were_packed(unpack):
    folder = unpack(content=llamacpp()) / "llama-b10991"
    assert (folder / "libllama.so").read_text() == "library"
    assert (folder / "libllama.so").is_symlink()


def test_no_file_keeps_setuid_or_is_writable_by_others(unpack):
    folder = unpack(content=llamacpp())
    program = folder / "llama-b10991" / "llama-server"
    assert program.stat().st_mode & 0o7777 == 0o755
    assert (folder / "llama-b10991").stat().st_mode & 0o022 == 0


def test_a_later_archive_replaces_what_an_earlier_one_brought(unpack):
    unpack((member("a", kind=SYM, link="b"), ""), (member("b"), "old"))
    folder = unpack((member("a"), "new"))
    assert not (folder / "a").is_symlink()
    assert ((folder / "a").read_text(), (folder / "b").read_text()) == ("new", "old")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        pytest.param([(member("../../out"), "x")], "leads out", id="dots"),
        pytest.param([(member("a/../../out"), "x")], "leads out", id="dots inside"),
        pytest.param([(member("/etc/out"), "x")], "absolute name", id="absolute"),
        pytest.param([(member("a", kind=SYM, link="/etc/passwd"), "")], "a link to", id="link"),
        pytest.param([(member("a", kind=SYM, link="../../x"), "")], "a link to", id="link up"),
        pytest.param(
            [(member("d/a", kind=SYM, link="../../x"), "")], "a link to", id="link up from below"
        ),
        pytest.param([(member("a", kind=HARD, link="/etc/passwd"), "")], "hard link", id="hard"),
        pytest.param([(member("a", kind=DEVICE), "")], "device or FIFO", id="device"),
        pytest.param([(member("a", kind=FIFO), "")], "device or FIFO", id="fifo"),
        pytest.param(
            [
                (member("a", kind=SYM, link="b/.."), ""),
                (member("b", kind=SYM, link="."), ""),
            ],
            "together lead out",
            id="links that lead out together",
        ),
        pytest.param(
            [
                (member("a", kind=SYM, link="b/.."), ""),
                (member("b", kind=SYM, link="."), ""),
                (member("a/out"), "x"),
            ],
            "leads out",
            id="file through such links",
        ),
        pytest.param(
            [
                (member("d/", kind=FOLDER), ""),
                (member("l", kind=SYM, link="d/../d/.."), ""),
                (member("l/../../out"), "x"),
            ],
            "leads out",
            id="dots behind a link",
        ),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(unpack, tmp_path, entries, why):
    with pytest.raises(Denied, match=why):
        unpack(*entries)
    assert not list(tmp_path.glob("**/out"))
    assert not list(tmp_path.parent.glob("out"))


def test_an_archive_cannot_fill_the_disk(unpack):
    with pytest.raises(Denied, match="more than 2 files"):
        unpack(*((member(str(n)), "") for n in range(3)), caps=Caps(files=2))
    with pytest.raises(Denied, match="that is no engine"):
        unpack((member("big"), "x" * 2048), caps=Caps(size_bytes=1024))


@pytest.mark.parametrize(
    "content",
    [b"", b"rubbish", gzip.compress(b"rubbish"), llamacpp()[:200]],
    ids=["empty", "no gzip", "no tar", "cut off"],
)
def test_a_broken_archive_is_said_to_be_one(unpack, content):
    with pytest.raises(Invalid, match=r"x\.tar\.gz is no whole"):
        unpack(content=content)
