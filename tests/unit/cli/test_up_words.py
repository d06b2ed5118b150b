"""What ``llmgw up`` says of itself."""

from __future__ import annotations

import sys

import pytest

from llmgw.cli import up_cmd
from llmgw.serve.allinone import Where

WHERE = Where(
    clients_url="http://127.0.0.1:8080/v1",
    admin_url="http://127.0.0.1:9090",
    is_admin_elsewhere=False,
)


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


def test_where_keys_are_on_it_says_how_to_make_one_and_asks_with_it():
    told = up_cmd.next_steps(WHERE, "m", llmgw="llmgw", keys_store="/my data/store.db")
    assert "  llmgw keys init --store '/my data/store.db'\n" in told
    assert "  llmgw keys create notebook --store '/my data/store.db'\n" in told
    assert 'completions -H "Authorization: Bearer $KEY" -H' in told
    assert "api_key='$KEY'" in told


def test_where_keys_are_off_it_speaks_of_none():
    told = up_cmd.next_steps(WHERE, "m", llmgw="llmgw", keys_store=None)
    assert "keys" not in told
    assert "KEY" not in told
    assert "api_key='unused'" in told
