"""``llmgw ctl tool-check``: what a client's library would stumble over is found and explained."""

from __future__ import annotations

import json

import pytest

from tests.fakes import commands
from tests.fakes.tool_engine import HERMES, NO_PARSER, ToolEngine, serving

NOBODY = {"LLMGW_CTL_URL": "http://127.0.0.1:9"}


def check(engine, *args):
    with serving(engine):
        return commands.here(
            *("ctl", "tool-check", "m", "--url", engine.url, *args), environ=NOBODY
        )


def verdicts(engine, *args):
    done = check(engine, "--json", *args)
    document = json.loads(done.stdout)
    assert done.returncode == (0 if all(c["is_good"] for c in document["checks"]) else 7)
    return {c["name"]: (c["is_good"], c["detail"]) for c in document["checks"]}


def test_a_model_that_does_all_is_ok_in_every_question():
    engine = ToolEngine()
    done = check(engine)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("  ")[0] for line in done.stdout.splitlines()[1:]]
    assert rows == [
        "tool call",
        "answer to the tool",
        "tool call in a stream",
        "tool that is asked for by name",
        "JSON",
        "JSON of a schema",
    ]
    back = engine.asked[1]["messages"]
    assert [message["role"] for message in back] == ["user", "assistant", "tool"]
    assert back[1]["tool_calls"][0]["id"] == back[2]["tool_call_id"] == "call-1"
    assert all(asked["model"] == "m" for asked in engine.asked)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", "--tool-call-parser hermes (vllm)"),
        ("sglang", "--tool-call-parser qwen25 (sglang)"),
    ],
)
def test_a_call_in_the_text_tells_which_parser_would_have_read_it(engine, words):
    found = verdicts(ToolEngine(text=HERMES), "--engine", engine)
    for name in ("tool call", "tool call in a stream", "tool that is asked for by name"):
        is_good, detail = found[name]
        assert not is_good
        assert words in detail
    assert "answer to the tool" not in found
    assert found["JSON"][0]


def test_an_engine_without_a_parser_is_told_from_one_with_a_wrong_one():
    found = verdicts(ToolEngine(refuses=NO_PARSER), "--engine", "vllm")
    is_good, detail = found["tool call"]
    assert not is_good
    assert "without a parser of tools" in detail
    assert found["JSON of a schema"][0]


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        ({"text": "I cannot."}, "tool call", "no tool was called, it said 'I cannot.'"),
        ({"name": "get_time"}, "tool call", "which was not offered"),
        ({"arguments": '{"city": '}, "tool call", "no JSON object with a city"),
        ({"has_end": False}, "tool call in a stream", "without [DONE]"),
        ({"is_index_lost": True}, "tool call in a stream", "has the index None"),
        ({"repeats": True}, "answer to the tool", "calls the tool again"),
        ({"json_text": "Sure! {}"}, "JSON", "no JSON object: Sure! {}"),
        ({"json_text": '{"city": "Paris"}'}, "JSON of a schema", "it has the keys city"),
        ({"is_garbled": True}, "JSON", "the answer is no JSON"),
        ({"refuses": "out of cards"}, "tool call", "answered 400"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_a_client_would_stumble_over_is_said(fault, name, words):
    is_good, detail = verdicts(ToolEngine(**fault))[name]
    assert not is_good
    assert words in detail


def test_a_gateway_that_is_not_there_is_said_with_how_to_name_it():
    done = commands.here("ctl", "tool-check", "m", "--url", "http://127.0.0.1:9", environ=NOBODY)
    assert done.returncode == 3
    assert "name it with --url" in done.stderr


def test_the_key_comes_from_where_it_is_kept_and_is_not_shown(tmp_path):
    (tmp_path / "key").write_text("sk-secret\n")
    done = check(ToolEngine(text="no"), "--api-key", f"@{tmp_path}/key")
    assert "sk-secret" not in done.stdout + done.stderr
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(404, 4, "serves no model 'm'"), (401, 5, "--api-key"), (403, 5, "--api-key")],
)
def test_a_refusal_that_is_not_about_tools_is_no_verdict(status, code, words):
    done = check(ToolEngine(refuses="no", status=status))
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_what_is_no_address_is_said():
    done = commands.here("ctl", "tool-check", "m", "--url", "nonsense", environ=NOBODY)
    assert done.returncode == 2
    assert "is no address" in done.stderr
