"""What ``llmgw up`` says of itself."""

from __future__ import annotations

import sys

import pytest

from llmgw.cli import up_cmd


@pytest.mark.parametrize(
    ("inflight", "text"),
    [
        (0, "stopping…"),
        (1, "stopping… 1 request is still running; Ctrl-C again ends it"),
        (3, "stopping… 3 requests are still running; Ctrl-C again ends them"),
    ],
)
def test_ctrl_c_is_answered_with_what_is_waited_for(inflight, text):
    assert up_cmd.stopping(inflight) == text


def test_what_to_type_next_is_what_was_typed(tmp_path):
    program = tmp_path / "llmgw"
    program.touch(mode=0o755)
    assert up_cmd.as_started(str(program), path=str(tmp_path)) == "llmgw"
    assert up_cmd.as_started(".venv/bin/llmgw", path="/nowhere") == ".venv/bin/llmgw"
    by_module = up_cmd.as_started("/x/llmgw/__main__.py", path="/nowhere")
    assert by_module == f"{sys.executable} -m llmgw"
