"""What operators read of an engine that failed: each thing once, and the engine's own word."""

from __future__ import annotations

import pytest

from llmgw.domain import failure_texts

LLAMA = (
    "[llama-server] load_backend: loaded CPU backend",
    "[llama-server] gguf_init_from_file_impl: invalid magic characters: 'abcd', expected 'GGUF'",
    "[llama-server] main: exiting due to model loading error",
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), ""),
        (("[sim] ", "[sim]  "), ""),
        (("[sim] one", "[sim] two"), "two"),
        (LLAMA, "gguf_init_from_file_impl: invalid magic characters: 'abcd', expected 'GGUF'"),
        (
            ("[v] Traceback (most recent call last):", "[v]   x = y", "[v] KeyError: 1"),
            "KeyError: 1",
        ),
        (
            ("[v] torch.OutOfMemoryError: CUDA", "[v] See root cause above."),
            "torch.OutOfMemoryError: CUDA",
        ),
        (("no name in front, an error",), "no name in front, an error"),
    ],
    ids=["none", "blank", "newest", "llama", "python", "sequel", "bare"],
)
def test_the_line_that_tells_the_cause_is_found(lines, expected):
    assert failure_texts.telling_line(lines) == expected


def test_a_long_line_is_cut():
    assert len(failure_texts.telling_line(("error " + "x" * 9000,))) == failure_texts.MAX_LINE_CHARS


@pytest.mark.parametrize(
    ("error", "code", "lines", "expected"),
    [
        ("e ended unexpectedly with exit code 1", 1, (), "e ended unexpectedly with exit code 1"),
        ("e was killed by SIGKILL", -9, (), "e was killed by SIGKILL"),
        ("not ready within 5 s", None, (), "not ready within 5 s"),
        ("no rendezvous", 3, (), "no rendezvous (exit code 3)"),
        ("e ended", None, ("[e] boom",), 'e ended; it said: "boom"'),
        ("e ended: boom", None, ("[e] boom",), "e ended: boom"),
    ],
    ids=["code-told", "signal", "own-stop", "code-missing", "line", "line-told"],
)
def test_nothing_is_told_twice(error, code, lines, expected):
    assert failure_texts.failure(error, exit_code=code, last_output=lines) == expected
