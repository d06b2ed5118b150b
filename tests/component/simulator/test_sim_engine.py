"""The sim engine as a process: its pace, its faults, and what it notices."""

import contextlib
import json
import signal
import socket
import subprocess
import time

import httpx
import pytest

from tests.fakes.engines import sim_words

BODY = {"model": "sim", "messages": [{"role": "user", "content": "hello there"}]}
CHAT = "/v1/chat/completions"


def _chat(engine, **fields):
    return httpx.post(f"{engine.url}{CHAT}", json={**BODY, **fields}, timeout=10)


@contextlib.contextmanager
def _raw(engine, body, *, version="1.1", path=CHAT):
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", engine.port), timeout=5) as sock:
        head = f"POST {path} HTTP/{version}\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        sock.sendall(head.encode() + data)
        yield sock


def test_it_is_not_healthy_before_it_has_loaded(start_sim):
    engine = start_sim(load_s=2, is_awaited=False)
    engine.wait_listening()
    assert engine.health() == 503
    answer = _chat(engine)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "Loading model"
    engine.wait_ready()
    assert _chat(engine).status_code == 200


def test_an_answer_takes_the_time_that_was_set(start_sim):
    engine = start_sim(ttft_ms=100, tpot_ms=10)
    started = time.monotonic()
    _chat(engine, max_tokens=11)
    assert time.monotonic() - started >= 0.2


def test_aliases_answer_and_unknown_models_do_not(start_sim):
    engine = start_sim("sim", "other", ttft_ms=1, tpot_ms=0)
    listed = httpx.get(f"{engine.url}/v1/models").json()["data"]
    assert [(m["id"], m["owned_by"]) for m in listed] == [
        ("sim", "llmgw-sim"),
        ("other", "llmgw-sim"),
    ]
    assert _chat(engine, model="other").json()["model"] == "other"
    refused = _chat(engine, model="nobody")
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"


def test_a_prompt_beyond_the_context_is_refused(start_sim):
    engine = start_sim(context_length=10, ttft_ms=1, tpot_ms=0)
    answer = _chat(engine, max_tokens=20)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_requests_beyond_the_slots_wait_their_turn(start_sim):
    engine = start_sim(parallel=1, ttft_ms=10_000)
    with _raw(engine, BODY), _raw(engine, BODY):
        engine.wait_metric("vllm:num_requests_waiting", 1)
        assert engine.metric("vllm:num_requests_running") == 1
        assert engine.metric("vllm:kv_cache_usage_perc") > 0


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_leaves_before_the_first_token_frees_its_slot_at_once(start_sim, is_stream):
    engine = start_sim(ttft_ms=60_000)
    with _raw(engine, {**BODY, "stream": is_stream}):
        engine.wait_metric("vllm:num_requests_running", 1)
    assert engine.wait_metric("sim:requests_aborted_total", 1) < 1.0
    assert engine.metric("vllm:num_requests_running") == 0


def test_a_client_that_leaves_a_stream_frees_its_slot_at_once(start_sim):
    engine = start_sim(ttft_ms=1, tpot_ms=20)
    with _raw(engine, {**BODY, "stream": True, "max_tokens": 4000}) as sock:
        received = b""
        while b"gamma" not in received:
            received += sock.recv(65536)
    assert engine.wait_metric("sim:requests_aborted_total", 1) < 1.0
    assert engine.metric("vllm:num_requests_running") == 0


def test_one_that_waited_runs_when_another_client_left(start_sim):
    engine = start_sim(parallel=1, ttft_ms=60_000)
    with _raw(engine, BODY) as holder:
        engine.wait_metric("vllm:num_requests_running", 1)
        engine.behave(ttft_ms=1, tpot_ms=0)
        with _raw(engine, BODY) as waiting:
            engine.wait_metric("vllm:num_requests_waiting", 1)
            holder.close()
            assert waiting.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_counters_move_while_an_unstreamed_answer_is_made(start_sim):
    engine = start_sim(ttft_ms=1, tpot_ms=5)
    with _raw(engine, {**BODY, "max_tokens": 4000}):
        engine.wait_metric("vllm:num_requests_running", 1)
        before = engine.metric("vllm:generation_tokens_total")
        deadline = time.monotonic() + 2
        while engine.metric("vllm:generation_tokens_total") <= before:
            assert time.monotonic() < deadline


def test_a_hanging_engine_produces_nothing_until_it_is_let_go(start_sim):
    engine = start_sim(ttft_ms=1, tpot_ms=5)
    with _raw(engine, {**BODY, "stream": True, "max_tokens": 100}) as sock:
        received = b""
        while b"beta" not in received:
            received += sock.recv(65536)
        engine.behave(hang=True)
        made = engine.metric("vllm:generation_tokens_total")
        with _raw(engine, BODY):
            engine.wait_metric("vllm:num_requests_running", 2)
        assert engine.metric("vllm:generation_tokens_total") == made
        assert engine.health() == 200
        engine.behave(hang=False, tpot_ms=0)
        while not received.endswith(b"0\r\n\r\n"):
            received += sock.recv(65536)
    assert b"[DONE]" in received


def test_health_can_be_made_silent(start_sim):
    engine = start_sim()
    engine.behave(hang_health=True)
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{engine.url}/health", timeout=0.2)


def test_every_request_can_be_made_to_fail(start_sim):
    engine = start_sim(fail_rate=1, fail_status=502)
    assert _chat(engine).status_code == 502
    engine.behave(fail_rate=0)
    assert _chat(engine).status_code == 200
    assert engine.metric("sim:requests_failed_total") == 1


def test_a_stream_can_be_cut_in_its_middle(start_sim):
    engine = start_sim(ttft_ms=1, tpot_ms=1)
    engine.behave(cut_after_tokens=3)
    with _raw(engine, {**BODY, "stream": True, "max_tokens": 50}) as sock:
        received = b""
        while data := sock.recv(65536):
            received += data
    assert b" gamma" in received
    assert b" delta" not in received
    assert not received.endswith(b"0\r\n\r\n")
    with pytest.raises(httpx.RemoteProtocolError):
        _chat(engine, max_tokens=50)


def test_it_crashes_after_as_many_requests_as_it_was_told(start_sim):
    engine = start_sim(exit_after=2, ttft_ms=1, tpot_ms=0)
    assert [_chat(engine).status_code for _ in range(2)] == [200, 200]
    assert engine.wait() == 1


def test_it_asks_for_its_key_on_the_api_but_not_for_health(start_sim):
    engine = start_sim(api_key="k-1", ttft_ms=1, tpot_ms=0)
    assert _chat(engine).status_code == 401
    headers = {"Authorization": "Bearer k-1"}
    assert httpx.get(f"{engine.url}/v1/models", headers=headers).status_code == 200


def test_an_engine_that_cannot_start_says_why_and_ends(start_sim):
    engine = start_sim(fail_start=True, is_awaited=False)
    assert engine.wait() == 1
    assert "could not load the model" in engine.output


def test_a_port_that_is_held_is_named(start_sim):
    engine = start_sim()
    second = subprocess.run(
        sim_words(listen=engine.address), capture_output=True, text=True, timeout=20, check=False
    )
    assert second.returncode == 5
    assert f"cannot listen on {engine.address}" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_when_it_is_told_to_even_with_an_open_stream(start_sim, number):
    engine = start_sim(ttft_ms=60_000)
    with _raw(engine, {**BODY, "stream": True}):
        engine.wait_metric("vllm:num_requests_running", 1)
        engine.send(number)
        assert engine.wait(timeout_s=3) == 0


def test_the_leader_serves_when_every_rank_has_joined_and_dies_with_one(start_sim):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = f"127.0.0.1:{free.getsockname()[1]}"
    ranks = {"nnodes": 2, "dist_init_addr": meet, "is_awaited": False}
    worker = start_sim(node_rank=1, **ranks)
    leader = start_sim(node_rank=0, **ranks)
    leader.wait_listening()
    leader.wait_ready()
    assert worker.process.poll() is None
    assert "listening address" not in worker.output
    worker.send(signal.SIGKILL)
    assert leader.wait() == 1
    assert "rank 1 is gone" in leader.output


def test_a_worker_ends_with_its_leader(start_sim):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = f"127.0.0.1:{free.getsockname()[1]}"
    ranks = {"nnodes": 2, "dist_init_addr": meet, "is_awaited": False}
    leader = start_sim(node_rank=0, **ranks)
    worker = start_sim(node_rank=1, **ranks)
    leader.wait_listening()
    leader.wait_ready()
    leader.send(signal.SIGKILL)
    assert worker.wait() == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"hello\r\n\r\n", id="no http"),
        pytest.param(b"POST /v1/models HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="length"),
    ],
)
def test_bytes_that_are_no_request_get_400_and_the_end(start_sim, data):
    engine = start_sim()
    with socket.create_connection(("127.0.0.1", engine.port), timeout=5) as sock:
        sock.sendall(data)
        received = b""
        while piece := sock.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 400 ")


def test_pipelined_requests_are_answered_in_their_order(start_sim):
    engine = start_sim(ttft_ms=20, tpot_ms=0)
    with _raw(engine, {**BODY, "max_tokens": 2}) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := sock.recv(65536):
            received += piece
    assert received.index(b"alpha beta") < received.index(b'"status":"ok"')


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", CHAT, 405)]
)
def test_what_is_not_served_is_said(start_sim, method, path, status):
    engine = start_sim()
    assert httpx.request(method, f"{engine.url}{path}").status_code == status


def test_two_hundred_streams_at_once_all_end(start_sim):
    engine = start_sim(ttft_ms=50, tpot_ms=20)
    body = {**BODY, "stream": True, "max_tokens": 10}
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(_raw(engine, body)) for _ in range(200)]
        for sock in socks:
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                piece = sock.recv(65536)
                assert piece
                received += piece
            assert received.count(b'"content"') == 11
    assert engine.metric("vllm:request_success_total") == 200
