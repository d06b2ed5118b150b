"""Cards that engines of a node hold, told apart from what others hold."""

from __future__ import annotations

import contextlib
import os

import pytest

from llmgw.agent.supervisor import adoption, holdings
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.kinship import Identity
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.kit import proctable

ME = Identity("engine", os.getpid(), proctable.entry(os.getpid()).start_ticks)


def _leave(folder, shard_id, *, cards, processes=(ME,), boot_id=None):
    spec = ShardSpec(
        replica_id="r",
        shard_id=shard_id,
        http_port=20001,
        gpu_indices=cards,
        profile=LaunchProfile(name="p", engine="sim", model_path="/m", served_model_name="m"),
    )
    record = Record(
        spec=spec,
        boot_id=proctable.boot_id() if boot_id is None else boot_id,
        started_at=0.0,
        processes=processes,
        is_launched=True,
    )
    adoption.save(folder / f"shard-{shard_id}.json", record)


def test_cards_of_living_shards_are_held(tmp_path):
    _leave(tmp_path, "a.0", cards=(0, 1))
    _leave(tmp_path, "b.0", cards=(5,))
    assert holdings.held_cards(tmp_path) == {0, 1, 5}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"boot_id": "another"}, id="of another boot"),
        pytest.param({"processes": ()}, id="not started yet"),
        pytest.param({"processes": (Identity("engine", ME.pid, 1),)}, id="its number is another's"),
    ],
)
def test_cards_of_a_shard_that_does_not_live_are_free(tmp_path, change):
    _leave(tmp_path, "a.0", cards=(0,), **change)
    assert holdings.held_cards(tmp_path) == frozenset()


def test_nothing_is_held_where_no_agent_has_been(tmp_path):
    assert holdings.held_cards(tmp_path / "none") == frozenset()
    (tmp_path / "shard-a.0.json").write_text("{")
    assert holdings.held_cards(tmp_path) == frozenset()


@contextlib.contextmanager
def as_somebody_else():
    """Root may read everything."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_a_folder_that_is_closed_to_us_is_not_taken_for_an_empty_one(tmp_path):
    folder = tmp_path / "agent"
    folder.mkdir()
    _leave(folder, "a.0", cards=(0,))
    folder.chmod(0)
    with as_somebody_else(), pytest.raises(PermissionError):
        holdings.held_cards(folder)
    folder.chmod(0o700)
