"""A real engine that takes its time is left in peace; one that is frozen is left."""

from __future__ import annotations

import signal
import threading
import time

import httpx
import pytest

from tests.fakes import tiny_gguf
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

CONTEXT_TOKENS = 65536
PROMPT_BYTES = 60_000
"""One token a byte; this engine reads it for most of a minute on a free core."""

STANDSTILL_S = 30.0
FROZEN_WITHIN_S = 45.0
"""Three times what it should take: ten seconds, and the probes that were under way."""

FROZEN_AFTER_S = 5.0
"""Half of what it should take: progress was seen last a while before it froze."""


@pytest.fixture
def beside_a_spare(deployment, start_llama, start_sim, tmp_path):
    """A llama.cpp that gets the requests, and another engine that could have them."""
    model = tiny_gguf.write(tmp_path / "patient.gguf", context_tokens=CONTEXT_TOKENS)
    size = str(CONTEXT_TOKENS)
    engine = start_llama("--ctx-size", size, model=model, alias="sim")
    spare = start_sim("sim", context_length=4 * CONTEXT_TOKENS)
    deployment.server(
        endpoints=[
            {"id": "real", "url": engine.url, "models": ["sim"], "priority": 1},
            {"id": "spare", "url": spare.url, "models": ["sim"]},
        ]
    )
    until(lambda: asked(deployment, "hi").headers["x-llmgw-attempts"] == "1", "an answer")
    return deployment, engine


def asked(deployment, prompt):
    body = {
        "model": "sim",
        "max_tokens": 2,
        "messages": [{"role": "user", "content": prompt}],
    }
    return httpx.post(f"{deployment.url}/v1/chat/completions", json=body, timeout=400)


def test_long_prompt_of_a_real_engine_lives_and_a_frozen_one_dies(beside_a_spare):
    """No byte comes for longer than a standstill may last, and the client does not notice."""
    deployment, engine = beside_a_spare
    begun_at = time.monotonic()
    answer = asked(deployment, "ab " * (PROMPT_BYTES // 3))
    took_s = time.monotonic() - begun_at
    assert (answer.status_code, answer.headers["x-llmgw-attempts"]) == (200, "1"), answer.text
    assert answer.json()["usage"]["prompt_tokens"] >= PROMPT_BYTES
    assert took_s > STANDSTILL_S, "too quick to prove anything"

    got = []
    client = threading.Thread(target=lambda: got.append(asked(deployment, "cd " * 20_000)))
    client.start()
    time.sleep(3)
    assert not got
    engine.send(signal.SIGSTOP)
    frozen_at = time.monotonic()
    client.join(timeout=FROZEN_WITHIN_S)
    assert [one.status_code for one in got] == [200]
    assert got[0].headers["x-llmgw-attempts"] == "2"
    assert FROZEN_AFTER_S < time.monotonic() - frozen_at < FROZEN_WITHIN_S
