"""``llmgw bench`` against an engine whose limits are known."""

from __future__ import annotations

import json

import pytest

from tests.fakes import commands

QUICK = ("--level-time", "1s", "--output-tokens", "100", "--slo-ttft", "0.4")


def bench(engine, *words):
    return commands.run("bench", f"{engine.url}/v1", "--model", "sim", *QUICK, *words)


@pytest.fixture
def narrow(start_sim):
    """Four requests at once, half a second each: a fifth waits."""
    return start_sim(ttft_ms=5, tpot_ms=5, parallel=4)


def test_it_finds_where_requests_begin_to_wait(narrow):
    ran = bench(narrow, "--metrics", f"{narrow.url}/metrics", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    levels = {level["concurrency"]: level for level in found["levels"]}
    assert found["is_bounded"]
    assert 4 <= found["best"]["concurrency"] < 8
    assert not levels[4]["broken"]
    assert "TTFT p95" in levels[8]["broken"][0]
    assert levels[8]["waiting"] >= 1
    assert levels[4]["tpot_s"]["p50"] == pytest.approx(0.005, abs=0.004)
    assert levels[1]["tokens_per_s"] > 0


def test_people_get_a_table_and_a_sentence_and_progress_beside_it(narrow):
    ran = bench(narrow, "--most", "2")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("AT ONCE")
    assert "It carries 2 requests at once" in ran.stdout
    assert "perhaps more" in ran.stdout
    assert ran.stderr.startswith("1 at once: ")


def test_an_endpoint_whose_streams_break_off_carries_nothing(start_sim):
    engine = start_sim(ttft_ms=1, tpot_ms=1)
    engine.behave(cut_after_tokens=3)
    ran = bench(engine)
    assert ran.returncode == 7, ran.stderr
    assert "failed" in ran.stdout


def test_a_level_that_breaks_at_once_ends_with_7(start_sim):
    ran = bench(start_sim(ttft_ms=500, tpot_ms=1))
    assert ran.returncode == 7
    assert "Not even the first level kept the promises" in ran.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:9/v1", "--model", "m"), "onnect"),
        (("nowhere", "--model", "m"), "write http://HOST:PORT/v1"),
        (("http://127.0.0.1:9/v1", "--model", "m", "--start", "9", "--most", "3"), "above --most"),
        (("http://127.0.0.1:9/v1", "--model", "m", "--shared-prefix", "256"), "leaves nothing"),
        (("http://127.0.0.1:9/v1", "--model", "m", "--api-key", "sk-123"), "a secret is written"),
    ],
    ids=["nobody", "no address", "levels", "prefix", "key"],
)
def test_what_cannot_be_measured_is_said_at_once(words, said):
    ran = commands.run("bench", *words)
    assert ran.returncode in {2, 3}
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "sk-123" not in ran.stderr


def test_an_unknown_model_is_quoted_from_the_refusal(narrow):
    ran = commands.run("bench", f"{narrow.url}/v1", "--model", "nosuch")
    assert ran.returncode == 2
    assert "status 404, The model `nosuch` does not exist" in ran.stderr
