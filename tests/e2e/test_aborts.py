"""A client that leaves: the engine hears of it at once and works for nobody."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import httpx
import pytest

ABORTED = "sim:requests_aborted_total"
RUNNING = "vllm:num_requests_running"
ABORTED_AT = "sim:last_abort_monotonic_seconds"
WITHIN_S = 0.1
"""The promise, read off the engine's own clock: one machine has one monotonic clock."""


@pytest.fixture
def routed(deployment, start_sim):
    """A sim engine behind a server that only routes; both are real processes."""
    engine = start_sim("sim", ttft_ms=300, tpot_ms=50, tokens=200)
    deployment.server(endpoints=[{"id": "a", "url": engine.url, "models": ["sim"]}])
    return deployment, engine


def connected(deployment, *, stream, **more):
    """A client that has sent its whole request."""
    port = int(deployment.url.rpartition(":")[2])
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    body = json.dumps(
        {
            "model": "sim",
            "stream": stream,
            "messages": [{"role": "user", "content": "hi"}],
            **more,
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


@pytest.mark.parametrize(
    ("stream", "has_begun"),
    [
        pytest.param(True, True, id="in the middle of a stream"),
        pytest.param(True, False, id="before the first byte of a stream"),
        pytest.param(False, False, id="before an answer in one piece"),
    ],
)
def test_the_engine_sees_a_client_leave_within_a_tenth_of_a_second(routed, stream, has_begun):
    deployment, engine = routed
    took_s = []
    for number in range(1, 6):
        with connected(deployment, stream=stream) as client:
            engine.wait_metric(RUNNING, 1)
            if has_begun:
                assert b"data: " in received(client)
        left_at = time.monotonic()
        engine.wait_metric(ABORTED, number)
        took_s.append(engine.metric(ABORTED_AT) - left_at)
        assert engine.metric(RUNNING) == 0
    assert min(took_s) < WITHIN_S
    assert max(took_s) < 10 * WITHIN_S, "also on a machine that does other things"


def test_a_crowd_that_leaves_leaves_nothing_behind(routed):
    deployment, engine = routed
    clients = [connected(deployment, stream=number % 2 == 0) for number in range(40)]
    engine.wait_metric(RUNNING, 40, timeout_s=15)
    for client in clients:
        client.close()
    engine.wait_metric(ABORTED, 40, timeout_s=6)
    assert engine.metric(RUNNING) == 0


def test_a_stream_of_llama_cpp_is_freed_when_its_client_leaves(deployment, start_llama):
    engine = start_llama("--ctx-size", "32768", "--slots", alias="sim")
    deployment.server(endpoints=[{"id": "a", "url": engine.url, "models": ["sim"]}])
    with connected(deployment, stream=True, max_tokens=30_000, ignore_eos=True) as client:
        assert b"data: " in received(client)
        assert busy_slots(engine) == 1
    left_at = time.monotonic()
    while busy_slots(engine):
        assert time.monotonic() - left_at < 3.0, "it would write for a minute"


def busy_slots(engine):
    slots = httpx.get(f"{engine.url}/slots", timeout=5).raise_for_status().json()
    return sum(slot["is_processing"] for slot in slots)


def received(client):
    """All bytes up to the first event."""
    got = b""
    with contextlib.suppress(TimeoutError):
        while b"data: " not in got:
            got += client.recv(65536)
    return got
