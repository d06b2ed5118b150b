"""Jobs and what they tell, on each database."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain.jobs import Job, JobEvent, JobState
from llmgw.errors import Conflict, Unknown


def job(job_id="j1", *targets, **changed):
    given = {
        "kind": "install_engine",
        "playbook": "engines.yml",
        "targets": targets or ("n1",),
        "requested_by": "ann",
        "created_at": 10.0,
        "variables": {"version": "b10991"},
    }
    return Job(job_id=job_id, **{**given, **changed})


def event(counter, **changed):
    return JobEvent(job_id="j1", counter=counter, at=float(counter), event="runner_ok", **changed)


@pytest.fixture
async def running(store):
    await store.jobs.queue(job())
    return await store.jobs.start("j1", owner="s1", at=11.0)


async def test_a_job_is_read_as_it_was_queued(store):
    await store.jobs.queue(job("j1", "n1", "n2"))
    assert await store.jobs.find("j1") == job("j1", "n1", "n2")
    with pytest.raises(Unknown, match="no job j2"):
        await store.jobs.find("j2")


async def test_an_id_is_given_once(store):
    await store.jobs.queue(job())
    with pytest.raises(Conflict):
        await store.jobs.queue(job())


async def test_jobs_are_listed_newest_first_by_state_and_rollout(store):
    await store.jobs.queue(job("j1"))
    await store.jobs.queue(job("j2", created_at=20.0, parent="r1"))
    await store.jobs.start("j1", owner="s1", at=30.0)
    assert [one.job_id for one in await store.jobs.page()] == ["j2", "j1"]
    assert [one.job_id for one in await store.jobs.page(state=JobState.RUNNING)] == ["j1"]
    assert [one.job_id for one in await store.jobs.page(parent="r1")] == ["j2"]


async def test_a_started_job_holds_its_nodes(store, running):
    assert running == await store.jobs.find("j1")
    assert (running.state, running.owner) == (JobState.RUNNING, "s1")
    assert await store.jobs.claims() == {"n1": "j1"}


async def test_one_job_a_node_at_a_time(store, running):
    await store.jobs.queue(job("j2", "n0", "n1"))
    with pytest.raises(Conflict, match="job j1 works on node n1"):
        await store.jobs.start("j2", owner="s1", at=12.0)
    assert (await store.jobs.find("j2")).state is JobState.QUEUED
    assert await store.jobs.claims() == {"n1": "j1"}


async def test_of_many_that_start_a_job_one_does(store):
    await store.jobs.queue(job())
    done = await asyncio.gather(
        *(store.jobs.start("j1", owner=f"s{number}", at=11.0) for number in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Job) for one in done) == 1
    assert sum(isinstance(one, Conflict) for one in done) == 5


async def test_an_ended_job_frees_its_nodes_and_ends_once(store, running):
    await store.jobs.finish(
        "j1", state=JobState.SUCCESSFUL, at=20.0, return_code=0, summary={"n1": {"ok": 3}}
    )
    ended = await store.jobs.find("j1")
    assert (ended.state, ended.return_code, ended.summary) == (
        JobState.SUCCESSFUL,
        0,
        {"n1": {"ok": 3}},
    )
    assert await store.jobs.claims() == {}
    with pytest.raises(Conflict, match="ended already: successful"):
        await store.jobs.finish("j1", state=JobState.FAILED, at=21.0)


async def test_a_job_does_not_end_as_something_that_goes_on(store, running):
    with pytest.raises(Conflict, match="cannot end as queued"):
        await store.jobs.finish("j1", state=JobState.QUEUED, at=20.0)


async def test_a_queued_job_is_cancelled_at_once_and_never_starts(store):
    await store.jobs.queue(job())
    assert (await store.jobs.cancel("j1", at=12.0)).state is JobState.CANCELED
    with pytest.raises(Conflict, match="is canceled"):
        await store.jobs.start("j1", owner="s1", at=13.0)
    with pytest.raises(Conflict, match="ended already"):
        await store.jobs.cancel("j1", at=14.0)


async def test_the_owner_of_a_running_job_hears_that_it_shall_end(store, running):
    assert await store.jobs.beat("j1", owner="s1", at=12.0) is False
    assert (await store.jobs.cancel("j1", at=13.0)).state is JobState.RUNNING
    assert await store.jobs.beat("j1", owner="s1", at=14.0) is True


async def test_a_job_whose_owner_is_silent_is_interrupted_and_can_be_done_again(store, running):
    await store.jobs.queue(job("j2", "n2"))
    await store.jobs.start("j2", owner="s2", at=40.0)
    assert await store.jobs.interrupt(silent_since=30.0, at=50.0) == ["j1"]
    assert (await store.jobs.find("j1")).state is JobState.INTERRUPTED
    assert await store.jobs.claims() == {"n2": "j2"}
    with pytest.raises(Conflict, match="not run by this process"):
        await store.jobs.beat("j1", owner="s1", at=51.0)
    await store.jobs.queue(job("j3"))
    assert (await store.jobs.start("j3", owner="s2", at=52.0)).state is JobState.RUNNING


async def test_events_come_in_order_once_and_go_on_after_a_number(store, running):
    await store.job_events.append([event(1), event(2, host="n1", duration_s=0.25)])
    await store.job_events.append([event(2), event(3)])
    assert [one.counter for one in await store.job_events.page("j1")] == [1, 2, 3]
    (second,) = await store.job_events.page("j1", after=1, limit=1)
    assert (second.host, second.duration_s) == ("n1", 0.25)
    assert (await store.job_events.page("j1"))[0].duration_s is None


async def test_output_of_an_event_is_bounded_and_holds_what_a_text_may(store):
    await store.job_events.append([event(1, stdout="ä" * 4000 + "\0"), event(2, stdout="a\0b")])
    first, second = await store.job_events.page("j1")
    assert first.stdout == "ä" * 2048
    assert second.stdout == "ab"


async def test_old_events_go(store):
    await store.job_events.append([event(1), event(2)])
    await store.job_events.append([])
    assert await store.job_events.prune(before=2.0) == 1
    assert [one.counter for one in await store.job_events.page("j1")] == [2]
