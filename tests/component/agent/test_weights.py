"""Weights from a real HTTP origin: fetched once, gone on with, never mixed, never half there."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

from llmgw.agent.weights.fetching import Weights
from llmgw.agent.weights.retrying import Retries
from llmgw.domain import weights as naming
from llmgw.domain.replicas import ShardState
from llmgw.errors import DeadlinePassed, Denied, Exhausted, Invalid, Unknown, Unreachable
from llmgw.kit.clock import SystemClock
from tests.fakes.agents import parts, spec
from tests.fakes.engines import free_port
from tests.fakes.file_server import origin
from tests.fakes.waiting import eventually

CONTENT = bytes(range(256)) * 400
CUT = 40_000


@pytest.fixture
async def shelf(tmp_path):
    made = Weights(folder=str(tmp_path / "cache"), clock=SystemClock(), retries=Retries(tries=1))
    yield made
    await made.close()


def cached(tmp_path, source):
    return tmp_path / "cache" / naming.cache_name(source)


def part_of(tmp_path, source):
    return tmp_path / "cache" / (naming.cache_name(source) + ".part")


def lock_of(tmp_path, source):
    return tmp_path / "cache" / (naming.cache_name(source) + ".lock")


def silent(progress):
    pass


async def test_a_remote_file_is_fetched_once_and_then_reused(tmp_path, shelf):
    async with origin(CONTENT) as made:
        path = await shelf.ensure(made.url, on_progress=silent)
        assert path == str(cached(tmp_path, made.url))
        assert cached(tmp_path, made.url).read_bytes() == CONTENT
        assert await shelf.ensure(made.url, on_progress=silent) == path
        assert len(made.requests) == 1
        assert [file.name for file in (tmp_path / "cache").iterdir()] == [
            naming.cache_name(made.url)
        ]


async def test_eight_callers_share_one_download(shelf):
    async with origin(CONTENT) as made:
        made.gate.clear()
        callers = [
            asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent)) for _ in range(8)
        ]
        await eventually(lambda: len(made.requests) == 1)
        made.gate.set()
        assert len(set(await asyncio.gather(*callers))) == 1
        assert len(made.requests) == 1


async def test_eight_callers_share_one_failure(shelf):
    async with origin(CONTENT, status=404) as made:
        callers = [shelf.ensure(made.url, on_progress=silent) for _ in range(8)]
        ended = await asyncio.gather(*callers, return_exceptions=True)
        assert {type(one) for one in ended} == {Unknown}
        assert len(made.requests) == 1


async def test_a_caller_that_leaves_does_not_end_the_download_of_another(tmp_path, shelf):
    async with origin(CONTENT) as made:
        made.gate.clear()
        first = asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent))
        await eventually(lambda: len(made.requests) == 1)
        second = asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        made.gate.set()
        await second
        assert cached(tmp_path, made.url).read_bytes() == CONTENT


async def test_the_last_caller_that_leaves_ends_the_download_and_a_new_one_begins(tmp_path, shelf):
    async with origin(CONTENT) as made:
        made.gate.clear()
        lone = asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent))
        await eventually(lambda: len(made.requests) == 1)
        lone.cancel()
        again = asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent))
        with pytest.raises(asyncio.CancelledError):
            await lone
        made.gate.set()
        await again
        assert cached(tmp_path, made.url).read_bytes() == CONTENT
        assert len(made.requests) == 2


async def test_a_caller_that_leaves_while_the_lock_is_taken_leaves_no_lock(
    tmp_path, shelf, monkeypatch
):
    """Else the next one would be told that another process fetches."""
    began, may_end, ended, take = *(threading.Event() for _ in range(3)), fcntl.flock

    def slowly(descriptor, kind):
        began.set()
        may_end.wait(10)
        take(descriptor, kind)
        ended.set()

    monkeypatch.setattr("fcntl.flock", slowly)
    async with origin(CONTENT) as made:
        lone = asyncio.ensure_future(shelf.ensure(made.url, on_progress=silent))
        await asyncio.to_thread(began.wait, 10)
        lone.cancel()
        await asyncio.sleep(0.05)
        may_end.set()
        await asyncio.wait({lone})
        await asyncio.to_thread(ended.wait, 10)
        async with asyncio.timeout(10):
            path = await shelf.ensure(made.url, on_progress=silent)
        assert path == str(cached(tmp_path, made.url))


async def test_a_short_body_is_an_error_and_the_next_try_goes_on_from_there(tmp_path, shelf):
    async with origin(CONTENT, cut_after=CUT) as made:
        with pytest.raises(Unreachable, match=f"{CUT} bytes"):
            await shelf.ensure(made.url, on_progress=silent)
        assert not cached(tmp_path, made.url).exists()
        assert part_of(tmp_path, made.url).stat().st_size == CUT
        made.cut_after = None
        await shelf.ensure(made.url, on_progress=silent)
        assert made.requests[1]["range"] == f"bytes={CUT}-"
        assert made.requests[1]["if-range"] == '"v1"'
        assert cached(tmp_path, made.url).read_bytes() == CONTENT
        assert len(list((tmp_path / "cache").iterdir())) == 1


async def begin(shelf, made):
    """Leave a part behind."""
    made.cut_after = CUT
    with contextlib.suppress(Unreachable):
        await shelf.ensure(made.url, on_progress=silent)
    made.cut_after = None
    made.requests.clear()


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"etag": '"v2"'}, id="changed"),
        pytest.param({"etag": '"v2"', "knows_if_range": False}, id="changed-without-if-range"),
        pytest.param({"knows_ranges": False}, id="without-ranges"),
        pytest.param({"shift": 7}, id="wrong-start"),
    ],
)
async def test_a_part_is_never_mixed_with_other_content(tmp_path, shelf, knobs):
    async with origin(CONTENT) as made:
        await begin(shelf, made)
        made.content = CONTENT[::-1]
        for name, value in knobs.items():
            setattr(made, name, value)
        await shelf.ensure(made.url, on_progress=silent)
        assert cached(tmp_path, made.url).read_bytes() == made.content


async def test_without_a_validator_a_part_is_begun_anew(tmp_path, shelf):
    async with origin(CONTENT, etag='W/"weak"') as made:
        await begin(shelf, made)
        await shelf.ensure(made.url, on_progress=silent)
        assert "range" not in made.requests[0]
        assert cached(tmp_path, made.url).read_bytes() == CONTENT


async def test_a_date_of_change_serves_as_validator(shelf):
    async with origin(CONTENT, etag="", modified="Mon, 01 Jun 2026 10:00:00 GMT") as made:
        await begin(shelf, made)
        await shelf.ensure(made.url, on_progress=silent)
        assert made.requests[0]["if-range"] == "Mon, 01 Jun 2026 10:00:00 GMT"


async def test_a_complete_part_is_given_its_name(tmp_path, shelf):
    async with origin(CONTENT) as made:
        leave_part(tmp_path, made, CONTENT)
        await shelf.ensure(made.url, on_progress=silent)
        assert cached(tmp_path, made.url).read_bytes() == CONTENT
        assert made.requests[0]["range"] == f"bytes={len(CONTENT)}-"
        assert len(made.requests) == 1


async def test_a_part_that_is_too_long_is_begun_anew(tmp_path, shelf):
    async with origin(CONTENT) as made:
        leave_part(tmp_path, made, CONTENT + b"x")
        await shelf.ensure(made.url, on_progress=silent)
        assert cached(tmp_path, made.url).read_bytes() == CONTENT


def leave_part(tmp_path, made, content):
    part = part_of(tmp_path, made.url)
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(content)
    part.with_name(part.name + ".json").write_text(json.dumps({"validator": made.etag}))


async def test_progress_is_told_at_the_start_and_at_the_end(tmp_path):
    told = []
    async with origin(CONTENT) as made, contextlib.AsyncExitStack() as stack:
        shelf = Weights(folder=str(tmp_path / "cache"), clock=SystemClock())
        stack.push_async_callback(shelf.close)
        await shelf.ensure(made.url, on_progress=told.append)
        assert [one.done_bytes for one in told] == [0, len(CONTENT)]
        assert [one.total_bytes for one in told] == [len(CONTENT), len(CONTENT)]
        assert {one.source for one in told} == {made.url}


async def test_progress_without_a_length_has_no_total_until_the_end(shelf):
    told = []
    async with origin(CONTENT, has_length=False) as made:
        await shelf.ensure(made.url, on_progress=told.append)
        assert told[0].total_bytes is None
        assert told[-1].total_bytes == len(CONTENT)


async def test_progress_is_told_at_most_every_two_seconds(tmp_path, clock):
    told = []
    shelf = Weights(folder=str(tmp_path / "cache"), clock=clock)
    async with origin(CONTENT * 20) as made:
        made.gate.clear()
        call = asyncio.ensure_future(shelf.ensure(made.url, on_progress=told.append))
        await eventually(lambda: len(told) == 1)
        await asyncio.sleep(0.1)
        assert len(told) == 1
        clock.advance(2.0)
        made.gate.set()
        await call
        assert len(told) == 3
        assert 0 < told[1].done_bytes < told[2].done_bytes == len(made.content)
    await shelf.close()


@pytest.mark.parametrize(
    ("knobs", "error", "words"),
    [
        pytest.param({"status": 401}, Denied, "login", id="401"),
        pytest.param({"status": 403}, Denied, "fetch it yourself", id="403"),
        pytest.param({"status": 404}, Unknown, "no such file", id="404"),
        pytest.param({"status": 500}, Unreachable, "answers 500", id="500"),
        pytest.param({"content_type": "text/html; charset=utf-8"}, Invalid, "/resolve/", id="page"),
    ],
)
async def test_a_refusal_says_what_to_do(shelf, knobs, error, words):
    async with origin(CONTENT, **knobs) as made:
        with pytest.raises(error, match=words) as failed:
            await shelf.ensure(made.url + "?token=secret", on_progress=silent)
        assert "secret" not in failed.value.message


async def test_an_origin_that_does_not_answer_is_named(shelf):
    url = f"http://127.0.0.1:{free_port()}/tiny.gguf"
    with pytest.raises(Unreachable, match=r"tiny\.gguf"):
        await shelf.ensure(url, on_progress=silent)


async def test_a_file_that_does_not_fit_the_disk_is_refused_before_it_is_written(
    tmp_path, shelf, monkeypatch
):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    async with origin(CONTENT) as made:
        with pytest.raises(
            Exhausted, match=f"needs {len(CONTENT)} bytes more .* has 1000 bytes free"
        ):
            await shelf.ensure(made.url, on_progress=silent)
        assert list((tmp_path / "cache").iterdir()) == []


async def test_another_process_that_downloads_is_waited_for(tmp_path, shelf):
    """Two agents share a folder: the second uses what the first has fetched."""
    async with origin(CONTENT) as made:
        part, lock = part_of(tmp_path, made.url), lock_of(tmp_path, made.url)
        part.parent.mkdir()
        holder = os.open(lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(holder, fcntl.LOCK_EX)
        told = []
        call = asyncio.ensure_future(shelf.ensure(made.url, on_progress=told.append))
        await eventually(lambda: len(told) == 1)
        part.write_bytes(CONTENT)
        part.rename(cached(tmp_path, made.url))
        lock.unlink()
        os.close(holder)
        await call
        assert made.requests == []
        assert [file.name for file in part.parent.iterdir()] == [naming.cache_name(made.url)]


async def test_a_download_goes_on_where_a_killed_process_left_it(tmp_path, shelf):
    async with origin(CONTENT * 100) as made:
        made.gate.clear()
        program = (
            "import asyncio, sys\n"
            "from llmgw.agent.weights.fetching import Weights\n"
            "from llmgw.kit.clock import SystemClock\n"
            "shelf = Weights(folder=sys.argv[1], clock=SystemClock())\n"
            "asyncio.run(shelf.ensure(sys.argv[2], on_progress=lambda p: None))\n"
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(tmp_path / "cache"), made.url),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.DEVNULL,
        )
        part = part_of(tmp_path, made.url)
        await eventually(lambda: part.exists() and part.stat().st_size > 0)
        process.kill()
        await process.wait()
        made.gate.set()
        await shelf.ensure(made.url, on_progress=silent)
        assert int(made.requests[-1]["range"].removeprefix("bytes=").removesuffix("-")) > 0
        assert cached(tmp_path, made.url).read_bytes() == made.content


async def test_a_stalled_other_process_is_named(tmp_path):
    shelf = Weights(
        folder=str(tmp_path / "cache"), clock=SystemClock(), retries=Retries(stall_s=0.1)
    )
    source = "http://127.0.0.1:1/tiny.gguf"
    lock = lock_of(tmp_path, source)
    lock.parent.mkdir()
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DeadlinePassed, match=r"tiny\.gguf\.lock"):
            await shelf.ensure(source, on_progress=silent)


async def test_local_files_are_used_where_they_lie(tmp_path, shelf, monkeypatch):
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    absolute = str(tmp_path / "model.gguf")
    assert await shelf.ensure(absolute, on_progress=silent) == absolute
    assert await shelf.ensure("./model.gguf", on_progress=silent) == absolute
    assert not (tmp_path / "cache").exists()
    with pytest.raises(Unknown, match=r"other\.gguf"):
        await shelf.ensure("./other.gguf", on_progress=silent)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param("", "no source", id="empty"),
        pytest.param("hf:org", "hf:ORG/REPO/FILE", id="organisation"),
        pytest.param("http://", "http://HOST/PATH", id="no-host"),
    ],
)
async def test_a_source_that_names_no_file_is_refused_with_advice(shelf, source, error):
    with pytest.raises(Invalid, match=error):
        await shelf.ensure(source, on_progress=silent)


def test_the_folder_is_made_beforehand_or_its_lack_told(tmp_path):
    Weights(folder=str(tmp_path / "new" / "cache"), clock=SystemClock()).prepare()
    assert (tmp_path / "new" / "cache").is_dir()
    (tmp_path / "file").touch()
    Weights(folder=str(tmp_path / "file" / "cache"), clock=SystemClock()).prepare()


async def test_a_bare_model_id_is_left_to_the_engine(shelf):
    assert await shelf.ensure("Org/Model", on_progress=silent) == "Org/Model"


async def test_without_a_cache_directory_nothing_is_fetched():
    shelf = Weights(folder="", clock=SystemClock())
    with pytest.raises(Invalid, match="cache directory"):
        await shelf.ensure("http://127.0.0.1:1/x.gguf", on_progress=silent)


async def test_a_shard_is_pending_with_progress_while_its_weights_come(tmp_path):
    async with origin(CONTENT) as made, parts(tmp_path) as agent:
        made.gate.clear()
        agent.orders.start(spec(port=free_port(), source=made.url))
        await eventually(lambda: any(one.fetch is not None for one in agent.reports))
        [running] = agent.orders.running()
        assert running.state is ShardState.PENDING
        made.gate.set()
        await agent.until(ShardState.READY)
        fetched = [one.fetch.done_bytes for one in agent.reports if one.fetch is not None]
        assert fetched[-1] == len(CONTENT)


async def test_a_shard_whose_file_is_missing_fails_and_names_it(tmp_path):
    async with parts(tmp_path) as agent:
        agent.orders.start(spec(port=free_port(), source="/nowhere/llama.gguf"))
        failed = await agent.until(ShardState.FAILED)
        assert "/nowhere/llama.gguf is not on this node" in failed.error
        assert "starting" not in agent.states()


async def test_a_stop_ends_a_start_that_still_fetches(tmp_path):
    async with origin(CONTENT) as made, parts(tmp_path) as agent:
        made.gate.clear()
        agent.orders.start(spec(port=free_port(), source=made.url))
        await eventually(lambda: len(made.requests) == 1)
        agent.orders.stop("demo-1.0")
        await agent.until(ShardState.STOPPED)
        made.gate.set()
        await asyncio.sleep(0.2)
        assert agent.orders.running() == ()
        assert "starting" not in agent.states()
