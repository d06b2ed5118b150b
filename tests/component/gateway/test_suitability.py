"""What a model cannot take is told at once, before anything is queued or sent."""

from __future__ import annotations

import pytest

from tests.fakes.gateway_stage import ASK, MODEL, ON_ONE_LOOP

pytestmark = ON_ONE_LOOP

TOOLS = {**ASK, "tools": [{"type": "function", "function": {"name": "f"}}]}
IMAGE = {
    "model": MODEL,
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}
    ],
}


def prompt_of(tokens):
    """A prompt of about so many tokens; its role is one of them."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "x" * (tokens - 1) * 4}]}


async def test_prompt_of_a_tenth_more_than_the_context_passes_and_one_above_is_told(stage):
    stage.list_model(MODEL, context_length=1000)
    engine = await stage.engine()
    assert (await stage.ask(prompt_of(1100))).status == 200
    answer = await stage.ask(prompt_of(1101))
    assert (answer.status, answer.code) == (400, "context_length_exceeded")
    assert "1101" in answer.error["message"]
    assert len(engine.requests) == 1
    assert sum(sum(counts) for counts in stage.stats.admission.wait_buckets.values()) == 1


async def test_endpoint_that_is_too_small_for_a_prompt_does_not_get_it(stage):
    small = await stage.engine("e1", context_length=100, priority=1)
    large = await stage.engine("e2", context_length=4000)
    assert (await stage.ask(prompt_of(1000))).status == 200
    assert (len(small.requests), len(large.requests)) == (0, 1)
    answer = await stage.ask(prompt_of(9000))
    assert (answer.status, answer.code) == (400, "context_length_exceeded")


async def test_unknown_context_lets_everything_through(stage):
    await stage.engine()
    assert (await stage.ask(prompt_of(50_000))).status == 200


@pytest.mark.parametrize(("body", "lacking"), [(TOOLS, "tools"), (IMAGE, "vision")])
async def test_model_that_names_what_it_does_is_not_asked_for_more(stage, body, lacking):
    stage.tune(check_capabilities=True)
    stage.list_model(MODEL, capabilities=("json",))
    engine = await stage.engine()
    answer = await stage.ask(body)
    assert (answer.status, answer.code) == (400, "unsupported_capability")
    assert lacking in answer.error["message"]
    assert (await stage.ask(ASK)).status == 200
    assert len(engine.requests) == 1


@pytest.mark.parametrize("body", [TOOLS, IMAGE], ids=["tools", "image"])
@pytest.mark.parametrize(
    ("checks", "named"), [(True, ()), (True, ("tools", "vision")), (False, ("json",))]
)
async def test_what_is_not_declared_or_not_checked_is_tried(stage, body, checks, named):
    stage.tune(check_capabilities=checks)
    stage.list_model(MODEL, capabilities=named)
    await stage.engine()
    assert (await stage.ask(body)).status == 200
