"""Downloads go when nobody uses them, engines come when they are ordered, and each is answered."""

from __future__ import annotations

import threading

import pytest

from llmgw.agent.upkeep import Upkeep
from llmgw.config.settings import AgentSettings
from llmgw.domain import weights
from llmgw.domain.deeds import EngineWant
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck
from llmgw.domain.fetch_status import FetchState
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.domain.replicas import ShardState
from llmgw.errors import AlreadyHeld, EngineFailed
from llmgw.serve import engine_orders
from tests.fakes.agents import parts, spec
from tests.fakes.engines import free_port
from tests.fakes.file_server import origin
from tests.fakes.waiting import eventually

SOURCE = "https://models.example/a/used.gguf"
WANT = EngineWant("llamacpp", "b10991")


def upkeep(made, *, install=None, check=None):
    return Upkeep(
        shelf=made.orders,
        install=install,
        check=check,
        own_programs=("sglang",),
    )


def downloaded(tmp_path, source):
    folder = tmp_path / "weights"
    folder.mkdir(exist_ok=True)
    path = folder / weights.cache_name(source)
    path.write_text("weights")
    return path


async def removed(made, *paths):
    answers = []
    upkeep(made).remove_weights([str(path) for path in paths], on_done=answers.append)
    await eventually(lambda: answers)
    return answers[0]


async def test_a_download_goes_once_no_shard_uses_it(tmp_path):
    used, spare = downloaded(tmp_path, SOURCE), downloaded(tmp_path, SOURCE + "?2")
    async with parts(tmp_path) as made:
        made.orders.start(spec(port=free_port(), source=SOURCE))
        await made.until(ShardState.READY)
        kept, gone = await removed(made, used, spare)
        assert (kept.is_done, used.exists()) == (False, True)
        assert "demo-1.0" in kept.detail
        assert (gone.is_done, spare.exists()) == (True, False)
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        (gone,) = await removed(made, used)
        assert (gone.is_done, used.exists()) == (True, False)


async def test_what_may_not_go_stays_and_stops_none_of_the_others(tmp_path):
    mine = tmp_path / "weights" / "mine.gguf"
    outside = tmp_path / "0123456789abcdef-outside.gguf"
    fetched = downloaded(tmp_path, SOURCE)
    for path in (mine, outside):
        path.write_text("kept")
    around = fetched.parent / ".." / outside.name
    async with parts(tmp_path) as made:
        answers = await removed(made, mine, outside, around, fetched.parent / fetched.name, fetched)
    assert [one.is_done for one in answers] == [False, False, False, True, True]
    assert all(one.detail for one in answers[:3])
    assert answers[4].detail == "it was not there"
    assert (mine.exists(), outside.exists(), fetched.exists()) == (True, True, False)


@pytest.fixture
async def made(tmp_path):
    async with parts(tmp_path) as made:
        yield made


async def test_an_engine_is_installed_once_however_often_it_is_ordered(made):
    go, runs, answers = threading.Event(), [], []

    def install(want):
        runs.append(want)
        go.wait(10)
        return EngineInstall(want.engine, want.version, "cpu", InstallState.READY)

    keeper = upkeep(made, install=install)
    for _ in range(2):
        keeper.provision([WANT], on_done=answers.append)
    other = EngineWant("llamacpp", "b1")
    keeper.provision([other], on_done=answers.append)
    ((first,), (again,), (refused,)) = answers
    assert first == again
    assert (first.subject, first.is_done) == ("llamacpp b10991", True)
    assert (refused.is_done, "b10991 is being installed" in refused.detail) == (False, True)
    await eventually(lambda: runs)
    go.set()
    await eventually(lambda: not keeper._installing)
    assert (runs, len(answers)) == ([WANT], 3)


async def test_an_engine_whose_program_is_named_in_the_settings_is_left_alone(made):
    answers = []
    upkeep(made).provision([EngineWant("sglang", "0.5")], on_done=answers.append)
    (((refused),),) = answers
    assert not refused.is_done
    assert "the settings of this node name its program of sglang" in refused.detail


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        pytest.param(AlreadyHeld("another installation runs"), "another inst", id="held"),
        pytest.param(EngineFailed("packages are missing"), "packages", id="failed"),
        pytest.param(
            EngineInstall("llamacpp", "b10991", "", InstallState.UNSUPPORTED, "no such card"),
            "no such card",
            id="unsupported",
        ),
    ],
)
async def test_an_installation_that_fails_is_told_of_once_more(made, ending, reason):
    def install(want):
        if isinstance(ending, Exception):
            raise ending
        return ending

    answers = []
    keeper = upkeep(made, install=install)
    keeper.provision([WANT], on_done=answers.append)
    await eventually(lambda: len(answers) == 2)
    ((accepted,), (failed,)) = answers
    assert (accepted.is_done, failed.is_done) == (True, False)
    assert reason in failed.detail


async def answered(keeper, engine):
    answers = []
    keeper.check_engine(engine, on_done=answers.append)
    await eventually(lambda: answers)
    await keeper.close()
    (deeds,) = answers
    return deeds


async def test_each_program_of_a_checked_engine_is_answered_for(tmp_path):
    def check(engine):
        good = ProgramCheck("vllm", ("vllm", "serve", "--help=all"), checked=10)
        old = ProgramCheck("ray", ("ray", "start"), problems=("it has no option --head", "nor -x"))
        silent = ProgramCheck("x", ("x",), failure="it did not answer within 1 s")
        return EngineCheck(engine, (good, old, silent))

    async with parts(tmp_path) as made:
        deeds = await answered(upkeep(made, check=check), "vllm")
    assert [(deed.subject, deed.is_done, deed.detail) for deed in deeds] == [
        ("vllm serve --help=all", True, "10 options"),
        ("ray start", False, "it has no option --head; nor -x"),
        ("x", False, "it did not answer within 1 s"),
    ]


async def test_an_engine_without_a_driver_is_answered_with_those_that_have_one(tmp_path):
    check = engine_orders.checker(AgentSettings(), environ={"PATH": ""})
    async with parts(tmp_path) as made:
        (deed,) = await answered(upkeep(made, check=check), "llama.cpp")
    assert not deed.is_done
    assert "did you mean llamacpp?" in deed.detail


async def ordered(made, source, *, is_cancelled=False):
    answers = []
    keeper = upkeep(made)
    keeper.fetch_weights([source], is_cancelled=is_cancelled, on_done=answers.append)
    await eventually(lambda: answers)
    ((deed,),) = answers
    return deed


async def test_weights_come_ahead_of_any_shard_and_their_progress_is_told(tmp_path):
    async with parts(tmp_path) as made, origin(b"w" * 4096) as host:
        host.gate.clear()
        taken = await ordered(made, host.url)
        assert (taken.is_done, "being fetched" in taken.detail) == (True, True)
        await eventually(lambda: [one.total_bytes for one in made.orders.fetches()] == [4096])
        (status,) = made.orders.fetches()
        assert (status.is_ordered, status.state) == (True, FetchState.FETCHING)
        host.gate.set()
        await eventually(lambda: not made.orders.fetches())
        again = await ordered(made, host.url)
        assert (again.is_done, again.detail) == (True, "it is here")
        assert len(host.requests) == 1


async def test_weights_that_are_called_off_stop_coming_and_only_once(tmp_path):
    async with parts(tmp_path) as made, origin(b"w" * 4096) as host:
        host.gate.clear()
        await ordered(made, host.url)
        assert (await ordered(made, host.url, is_cancelled=True)).is_done
        assert made.orders.fetches() == ()
        late = await ordered(made, host.url, is_cancelled=True)
        assert (late.is_done, "nobody has ordered it" in late.detail) == (False, True)


async def test_what_is_not_fetched_is_refused_with_the_reason(tmp_path):
    async with parts(tmp_path) as made:
        for is_cancelled in (False, True):
            refused = await ordered(made, "/models/a.gguf", is_cancelled=is_cancelled)
            assert not refused.is_done
            assert "it is a path" in refused.detail
