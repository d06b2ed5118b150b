"""Words that several processes see."""

import math
import subprocess
import sys

import pytest

from llmgw.errors import Invalid
from llmgw.kit import mmapboard


def test_what_one_view_writes_another_reads(tmp_path):
    made = mmapboard.created(tmp_path / "board" / "load", count=64)
    seen = mmapboard.attached(tmp_path / "board" / "load", count=64)
    made[63] = 2**64 - 1
    assert seen[63] == 2**64 - 1
    assert seen[0] == 0


def test_a_new_file_does_not_pull_the_old_one_from_under_those_who_have_it(tmp_path):
    path = tmp_path / "load"
    old = mmapboard.created(path, count=8)
    old[3] = 7
    assert mmapboard.created(path, count=8)[3] == 0
    assert old[3] == 7
    assert [file.name for file in tmp_path.iterdir()] == ["load"]


def test_a_disk_that_fills_up_later_cannot_take_a_page_away(tmp_path):
    path = tmp_path / "load"
    mmapboard.created(path, count=100_000)
    assert path.stat().st_blocks * 512 >= 800_000


@pytest.mark.parametrize("size_bytes", [0, 8, 72], ids=["empty", "short", "long"])
def test_a_file_of_another_size_is_refused(tmp_path, size_bytes):
    path = tmp_path / "load"
    path.write_bytes(bytes(size_bytes))
    with pytest.raises(Invalid, match="bytes, not 64"):
        mmapboard.attached(path, count=8)


def test_an_absent_file_is_refused_with_its_name(tmp_path):
    with pytest.raises(Invalid, match=r"cannot open the board .*load"):
        mmapboard.attached(tmp_path / "load", count=8)


def test_a_folder_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="cannot make the board"):
        mmapboard.created(tmp_path / "file" / "load", count=8)


@pytest.mark.parametrize("value", [0.0, -0.5, 1e300, math.inf])
def test_a_real_number_comes_back_as_it_was(value):
    assert mmapboard.to_real(mmapboard.of_real(value)) == value


def test_no_number_comes_back_as_none():
    assert math.isnan(mmapboard.to_real(mmapboard.of_real(math.nan)))


_WRITER = """
import sys
from pathlib import Path
from llmgw.kit import mmapboard
words = mmapboard.attached(Path(sys.argv[1]), count=8)
for _ in range(300_000):
    words[1] = 0
    words[1] = 2**64 - 1
words[0] = 1
"""


def test_a_word_is_never_seen_half_written(tmp_path):
    """On the machine that runs it; a torn word would be neither of the two that are written."""
    path = tmp_path / "load"
    words = mmapboard.created(path, count=8)
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)]) as writer:
        seen = set()
        while not words[0] and writer.poll() is None:
            seen.update([words[1] for _ in range(100)])
    assert writer.returncode == 0
    assert seen <= {0, 2**64 - 1}
