"""A shard takes legal steps only, and every one is told."""

from __future__ import annotations

import pytest

from llmgw.agent.supervisor.telling import Standing
from llmgw.domain.replicas import SHARD_STEPS, FetchProgress, LaunchProfile, ShardSpec, ShardState
from llmgw.errors import IllegalTransition

SPEC = ShardSpec(
    replica_id="demo-1",
    shard_id="demo-1.0",
    profile=LaunchProfile(name="cpu", engine="sim", model_path="/m", served_model_name="demo"),
    http_port=20000,
)
WAYS = {
    ShardState.PENDING: (),
    ShardState.STARTING: ("starting",),
    ShardState.LOADING: ("starting", "loading"),
    ShardState.READY: ("starting", "loading", "ready"),
    ShardState.DRAINING: ("starting", "draining"),
    ShardState.STOPPED: ("stopped",),
    ShardState.FAILED: ("starting", "loading", "failed"),
}


def standing(at=ShardState.PENDING):
    told = []
    made = Standing(SPEC, node_id="node01", on_report=told.append)
    for state in WAYS[at]:
        made.move(ShardState(state))
    return made, told


@pytest.mark.parametrize("at", ShardState)
@pytest.mark.parametrize("to", ShardState)
def test_a_step_that_the_table_does_not_have_is_refused_and_not_told(at, to):
    made, told = standing(at)
    before = len(told)
    if to in SHARD_STEPS[at]:
        made.move(to)
        assert (made.state, told[-1].state, len(told)) == (to, to, before + 1)
    else:
        with pytest.raises(IllegalTransition):
            made.move(to)
        assert (made.state, len(told)) == (at, before)


@pytest.mark.parametrize("state", ShardState)
def test_a_state_is_live_final_or_pending(state):
    assert state.is_live == (str(state) in {"starting", "loading", "ready", "draining"})
    assert state.is_final == (str(state) in {"stopped", "failed"})


def test_a_download_is_news_while_pending_and_no_step():
    made, told = standing()
    made.tell_fetch(FetchProgress("hf:a/b/c", done_bytes=1))
    assert (told[-1].state, told[-1].fetch.done_bytes) == (ShardState.PENDING, 1)
    made.move(ShardState.STARTING)
    made.tell_fetch(FetchProgress("hf:a/b/c", done_bytes=2))
    assert (len(told), told[-1].fetch) == (2, None)


def test_an_order_that_comes_twice_is_answered_by_the_newest_report():
    made, told = standing(ShardState.DRAINING)
    made.tell_drained()
    made.tell()
    assert [one.is_drained for one in told[-2:]] == [True, True]
    made.move(ShardState.FAILED, error="gone", exit_code=-9, last_output=("bye",))
    made.tell_drained()
    made.tell()
    assert told[-1] == told[-2]
    assert (told[-1].error, told[-1].exit_code, told[-1].is_drained) == ("gone", -9, False)
