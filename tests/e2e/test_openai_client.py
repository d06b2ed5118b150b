"""The official OpenAI client against ``llmgw up``, with real llama.cpp behind it."""

from __future__ import annotations

import inspect

import openai
import pytest
import yaml

from tests.fakes.deployment import Deployment

TINY, SLOW, OFF = "tiny", "slow", "off"
MESSAGES = [{"role": "user", "content": "Hello!"}]
EIGHT = {"max_tokens": 8, "extra_body": {"ignore_eos": True}}
"""The model speaks gibberish, in which the end may come at once."""


@pytest.fixture(scope="module")
def house(tmp_path_factory, tiny_gguf):
    """``llmgw up`` with a real model, one that loads for ever, and one that nobody may start."""
    root = tmp_path_factory.mktemp("house")
    file = root / "up.yaml"
    file.write_text(yaml.safe_dump({"models": models(tiny_gguf)}))
    deployment = Deployment(root)
    ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    up = deployment.run("up", "up", "--data", root / "data", "--config", file, *ports)
    yield up.wait_said(r"^tiny is served at (\S+)")
    deployment.close()


def models(tiny_gguf):
    tiny = {"name": "cpu", "engine": "llamacpp", "args": ["--threads", "1"]}
    slow = {"name": "cpu", "engine": "sim", "args": ["--load-s", "3600"]}
    return [
        {
            "name": TINY,
            "source": str(tiny_gguf),
            "aliases": ["small"],
            "capabilities": ["embeddings"],
            "context_length": 512,
            "scaling": {"min": 1},
            "profiles": [tiny],
        },
        {"name": SLOW, "source": "sim", "scaling": {"min": 1}, "profiles": [slow]},
        {"name": OFF, "source": "sim", "profiles": [slow]},
    ]


@pytest.fixture(params=["sync", "async"])
async def client(house, request):
    """A client of either kind; ``done`` awaits what the asynchronous one returns."""
    kinds = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
    made = kinds[request.param](base_url=house, api_key="unused", max_retries=0, timeout=30)
    yield made
    await done(made.close())


async def done(result):
    return await result if inspect.isawaitable(result) else result


async def chunks(stream):
    if hasattr(stream, "__aiter__"):
        return [chunk async for chunk in stream]
    return list(stream)


async def test_a_chat(client):
    asked = client.chat.completions.create(model=TINY, messages=MESSAGES, **EIGHT)
    answer = await done(asked)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.model == TINY
    assert answer.usage.completion_tokens == 8


async def test_a_model_by_its_alias(client):
    answer = await done(client.chat.completions.create(model="small", messages=MESSAGES, **EIGHT))
    assert answer.usage.completion_tokens == 8


async def test_a_streamed_chat_without_usage(client):
    stream = await done(
        client.chat.completions.create(model=TINY, messages=MESSAGES, **EIGHT, stream=True)
    )
    seen = await chunks(stream)
    assert "".join(c.choices[0].delta.content or "" for c in seen if c.choices)
    assert seen[-1].choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in seen)


async def test_a_streamed_chat_with_usage(client):
    stream = await done(
        client.chat.completions.create(
            model=TINY,
            messages=MESSAGES,
            **EIGHT,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    seen = await chunks(stream)
    assert seen[-1].choices == []
    assert seen[-1].usage.completion_tokens == 8
    assert all(chunk.usage is None for chunk in seen[:-1])


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
async def test_a_completion(client, is_stream):
    answer = await done(
        client.completions.create(model=TINY, prompt="Once", **EIGHT, stream=is_stream)
    )
    texts = [c.choices[0].text for c in await chunks(answer)] if is_stream else answer.choices
    assert "".join(texts) if is_stream else texts[0].text


async def test_embeddings(client):
    answer = await done(client.embeddings.create(model=TINY, input=["one", "two"]))
    first, second = (entry.embedding for entry in answer.data)
    assert len(first) == len(second) > 1
    assert first != second


async def test_the_list_of_models(client):
    listed = client.models.list()
    names = [model.id for model in ([m async for m in listed] if _is_async(client) else listed)]
    assert TINY in names


async def test_an_unknown_model_is_404(client):
    with pytest.raises(openai.NotFoundError) as refusal:
        await done(client.chat.completions.create(model="nosuch", messages=MESSAGES))
    assert refusal.value.code == "model_not_found"


async def test_a_bad_body_is_400(client):
    with pytest.raises(openai.BadRequestError):
        await done(client.chat.completions.create(model=TINY, messages="not a list"))


async def test_a_body_without_a_model_is_400(client):
    with pytest.raises(openai.BadRequestError) as refusal:
        await done(client.post("/chat/completions", body={"messages": []}, cast_to=object))
    assert refusal.value.body["param"] == "model"


async def test_a_model_that_loads_is_503_with_a_time_to_come_back(client):
    with pytest.raises(openai.InternalServerError) as refusal:
        await done(client.chat.completions.create(model=SLOW, messages=MESSAGES))
    assert refusal.value.status_code == 503
    assert refusal.value.code == "model_loading"
    assert int(refusal.value.response.headers["retry-after"]) > 0


async def test_a_model_that_is_off_is_503_and_is_not_called_loading(client):
    with pytest.raises(openai.InternalServerError) as refusal:
        await done(client.chat.completions.create(model=OFF, messages=MESSAGES))
    assert refusal.value.status_code == 503
    assert refusal.value.code == "no_endpoints"


def _is_async(client):
    return isinstance(client, openai.AsyncOpenAI)
