"""What a heartbeat repeats, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from llmgw.agent.beats import Beats
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    Gpu,
    HeartbeatFacts,
    InstallState,
    LocalWeights,
    NodeFacts,
    Storage,
)

WEIGHTS = (LocalWeights(path="/w/a.gguf", size_bytes=1),)
REGISTERED = NodeFacts(node_id="n", weights=WEIGHTS, engine_versions={"sim": "1"})
SAME = HeartbeatFacts(
    storage=(Storage(path="/w", free_bytes=1, total_bytes=2),),
    memory_total_mb=1000,
    weights=WEIGHTS,
    engine_versions={"sim": "1"},
)


def test_what_the_registration_said_is_not_repeated_but_space_and_memory_are():
    assert Beats(REGISTERED).news(SAME) == replace(SAME, weights=None, engine_versions=None)


def test_a_change_that_could_not_be_sent_is_said_again():
    beats = Beats(REGISTERED)
    changed = replace(SAME, engine_versions={"sim": "2"})
    assert beats.news(changed) == beats.news(changed)
    assert beats.news(changed).engine_versions == {"sim": "2"}
    beats.said(beats.news(changed))
    assert beats.news(changed).engine_versions is None


def test_a_list_that_became_empty_is_news():
    beat = Beats(REGISTERED).news(replace(SAME, weights=(), engine_versions={}))
    assert (beat.weights, beat.engine_versions) == ((), {})


def test_how_installed_engines_stand_is_said_when_it_changes():
    beats = Beats(REGISTERED)
    step = EngineInstall("llamacpp", "b1", "cpu", InstallState.INSTALLING, "unpacking")
    under_way = replace(SAME, engine_installs=(step,))
    assert beats.news(replace(SAME, engine_installs=())).engine_installs is None
    beats.said(beats.news(under_way))
    assert beats.news(under_way).engine_installs is None
    done = replace(SAME, engine_installs=(replace(step, state=InstallState.READY),))
    assert beats.news(done).engine_installs == done.engine_installs


def test_a_list_that_was_not_read_is_no_news_and_changes_nothing():
    beats = Beats(REGISTERED)
    beats.said(beats.news(replace(SAME, weights=None)))
    assert beats.news(SAME).weights is None


def test_a_problem_is_said_once():
    beats = Beats(REGISTERED)
    trouble = replace(SAME, new_problems=("card 0: ECC",))
    beats.said(beats.news(trouble))
    assert beats.news(trouble).new_problems == ()


CARD = Gpu(index=0, uuid="u", name="NVIDIA H200", memory_used_mib=4, power_watts=70)


def test_cards_are_said_again_when_more_than_their_gauges_changed():
    beats = Beats(replace(REGISTERED, gpus=(CARD,)))
    busy = replace(CARD, memory_used_mib=9, power_watts=400, utilization_percent=99)
    assert beats.news(replace(SAME, gpus=(busy,))).gpus is None
    broken = replace(SAME, gpus=(replace(busy, problems=("Xid 79",)),))
    assert beats.news(broken).gpus == broken.gpus
    beats.said(beats.news(broken))
    assert beats.news(broken).gpus is None
    assert beats.news(replace(SAME, gpus=(busy,))).gpus == (busy,)


def test_fabrics_and_what_is_wrong_with_them_are_said_when_either_changes():
    fabrics = (Fabric(name="ib", hcas=("mlx5_0",)),)
    beats = Beats(replace(REGISTERED, fabrics=fabrics))
    assert beats.news(replace(SAME, fabrics=fabrics)).fabrics is None
    assert beats.news(SAME).fabrics is None
    worse = replace(SAME, fabrics=fabrics, fabric_problems=("fabric ib: mlx5_1 is gone",))
    assert beats.news(worse) == replace(worse, weights=None, engine_versions=None)
    beats.said(beats.news(worse))
    assert (beats.news(worse).fabrics, beats.news(worse).fabric_problems) == (None, ())


def test_warnings_are_said_when_they_change_and_when_they_end():
    beats = Beats(REGISTERED)
    warned = replace(SAME, warnings=("no AVX2",))
    assert beats.news(replace(SAME, warnings=())).warnings is None
    beats.said(beats.news(warned))
    assert beats.news(warned).warnings is None
    assert beats.news(replace(SAME, warnings=())).warnings == ()
