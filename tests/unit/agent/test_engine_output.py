"""The newest lines of what engines print, whatever they print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.supervisor import output
from llmgw.agent.supervisor.output import Output


@pytest.fixture
def made(tmp_path):
    return Output(tmp_path / "tiny-1.0", max_lines=5)


def write(made, text, *, order=0, name="engine"):
    made.file(order=order, name=name).write_bytes(text.encode())


def test_nothing_was_printed_yet(made):
    assert made.tail(3) == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(2, ["6", "7"], id="some"),
        pytest.param(0, ["3", "4", "5", "6", "7"], id="zero-is-all-that-is-kept"),
        pytest.param(99, ["3", "4", "5", "6", "7"], id="too-many"),
    ],
)
def test_a_tail_is_the_newest_lines_oldest_first(made, lines, expected):
    write(made, "".join(f"{n}\n" for n in range(8)))
    assert made.tail(lines) == tuple(f"[engine] {line}" for line in expected)


def test_every_process_is_shown_in_the_order_of_its_start(made):
    write(made, "main\n", order=1)
    write(made, "side 1\nside 2\n", order=0, name="ray")
    assert made.tail(1) == ("[ray] side 2", "[engine] main")


def test_progress_bars_and_colours_become_plain_lines(made):
    write(made, "10%\r50%\r\x1b[32m100%\x1b[0m\r\ndone\x07")
    assert made.tail(9) == ("[engine] 10%", "[engine] 50%", "[engine] 100%", "[engine] done")


def test_an_endless_line_is_cut_and_a_half_one_at_the_start_is_left_out(made):
    write(made, "x" * 3_000_000 + "\nlast\n")
    assert made.tail(5) == ("[engine] last",)
    write(made, "y" * 5000)
    [line] = made.tail(5)
    assert len(line) < 2100
    assert line.endswith("…")


def test_trimming_moves_the_newest_bytes_aside_and_tails_go_on_over_both(made):
    write(made, "".join(f"line {n}\n" for n in range(10_000)))
    made.trim(max_bytes=1000)
    path = made.file(order=0, name="engine")
    assert path.stat().st_size == 0
    assert path.with_name(path.name + ".1").stat().st_size == 1000
    with path.open("ab") as appended:
        appended.write(b"new\n")
    assert made.tail(2) == ("[engine] line 9999", "[engine] new")
    made.trim(max_bytes=1000)
    assert path.stat().st_size == 4


def test_a_writer_in_append_mode_leaves_no_hole_after_trimming(made):
    path = made.file(order=0, name="engine")
    with path.open("ab", buffering=0) as engine:
        engine.write(b"a" * 2000)
        made.trim(max_bytes=1000)
        engine.write(b"b\n")
    assert path.read_bytes() == b"b\n"


def test_old_output_goes_and_that_of_living_shards_stays(tmp_path):
    for number in range(output.KEPT_SHARDS + 5):
        Output(tmp_path / f"shard-{number:02}", max_lines=5).file(order=0, name="e").touch()
    output.forget_old(tmp_path, living=["shard-00"])
    assert "shard-00" in output.sources(tmp_path)
    assert len(output.sources(tmp_path)) == output.KEPT_SHARDS + 1
    assert output.sources(tmp_path / "absent") == ()


@given(content=st.binary(max_size=300), lines=st.integers(min_value=-1, max_value=9))
def test_no_output_is_an_error_and_every_line_is_one_line(tmp_path_factory, content, lines):
    made = Output(tmp_path_factory.mktemp("out"), max_lines=4)
    made.file(order=0, name="engine").write_bytes(content)
    found = made.tail(lines)
    assert len(found) <= 4
    assert all("\n" not in line and "\r" not in line for line in found)
