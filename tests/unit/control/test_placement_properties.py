"""The invariants of placement, over a thousand random clusters each, and slowly over very many."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.inventory import claims
from llmgw.control.placement import planning
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Place
from llmgw.domain.nodes import Liveness
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.random_clusters import Dice, first_broken

MANY = settings(max_examples=1000, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(min_value=0, max_value=2**32)
VERY_MANY = 20_000


def filled(dice, on, models):
    """The placements of pass after pass until nothing more is placed, and the cluster then."""
    snapshot = clusters.snapshot(*models, on=on)
    placed = []
    while True:
        decision = decide(replace(snapshot, seed=len(placed)))
        assert not decision.faults
        here = [a for a in decision.actions if isinstance(a, Place)]
        assert len(here) <= 1, "one placement a pass"
        snapshot = replace(snapshot, cluster=clusters.after(snapshot.cluster, decision.actions))
        if not here:
            return placed, decision, snapshot.cluster
        placed += here


def profile_of(models, replica):
    model = next(m for m in models if m.name == replica.model)
    return model.profile(replica.profile)


@MANY
@given(SEEDS)
def test_replicas_keep_every_rule_of_shape_and_place(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    placed, _, _ = filled(dice, on, models)
    for action in placed:
        replica, profile = action.replica, profile_of(models, action.replica)
        shards = replica.shards
        assert [s.rank for s in shards] == list(range(profile.nodes))
        assert len({s.node_id for s in shards}) == profile.nodes
        assert [spec.rank for spec in action.specs] == list(range(profile.nodes))
        for shard in shards:
            node = on.nodes[shard.node_id]
            facts = node.facts
            cards = {g.index: g for g in facts.gpus}
            assert len(shard.gpu_indices) == profile.cards_per_node
            for index in shard.gpu_indices:
                assert cards[index].gpu_class == profile.gpu_class
                assert not cards[index].problems
                assert (cards[index].memory_used_mib or 0) <= 512
            fabrics = {f.name: f for f in facts.fabrics}
            if profile.nodes > 1:
                assert shard.hcas
                assert set(shard.hcas) <= set(fabrics[replica.fabric].hcas)
            else:
                assert shard.hcas == ()
            assert node.liveness is Liveness.READY
            assert node.is_connected
            assert not node.is_cordoned
            assert all(facts.labels.get(k) == v for k, v in profile.node_selector.items())
            assert (
                profile.engine == "sim"
                or profile.engine in facts.engine_versions
                or not (facts.engines_probed or facts.engine_versions)
            )


@MANY
@given(SEEDS)
def test_nothing_is_given_twice_and_no_promise_exceeds_a_total(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    placed, _, end = filled(dice, on, models)
    ids = [a.replica.replica_id for a in placed]
    assert len(ids) == len(set(ids) - set(on.replicas))
    cards, ports, memory_mb = Counter(), Counter(), Counter()
    for replica in end.replicas.values():
        for shard in replica.shards:
            address = end.nodes[shard.node_id].facts.mgmt_addr
            cards.update((shard.node_id, index) for index in shard.gpu_indices)
            ports.update((address, p) for p in (shard.http_port, shard.leader_port) if p)
            memory_mb[shard.node_id] += replica.memory_claim_gb * claims.MIB_PER_GB
    for stray in end.strays.values():
        cards.update((stray.node_id, index) for index in cards_kept(stray))
        ports[end.nodes[stray.node_id].facts.mgmt_addr, stray.http_port] += 1
    assert not [card for card, count in cards.items() if count > 1]
    assert not [port for port, count in ports.items() if count > 1]
    touched = {s.node_id for a in placed for s in a.replica.shards if a.replica.memory_claim_gb}
    for node_id in touched:
        total_mb = end.nodes[node_id].facts.memory_total_mb
        assert total_mb is None or memory_mb[node_id] <= total_mb


@MANY
@given(SEEDS)
def test_what_is_not_placed_has_a_reason_for_every_node_and_every_profile(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    _, decision, end = filled(dice, on, models)
    space = planning.space(end, now=NOW, bounds=Bounds())
    for model in models:
        running = sum(r.model == model.name for r in end.replicas.values())
        assert (running < model.scaling.min) is (model.name in decision.refusals)
        if model.name not in decision.refusals:
            continue
        outcome = planning.plan(space, model, failures=None, is_full=True)
        assert outcome.placement is None
        assert {t.profile.name for t in outcome.tried} == {p.name for p in model.profiles}
        for tried in outcome.tried:
            assert tried.summary
            assert {r.node_id for r in tried.refusals} == set(end.nodes)
            assert all(r.reason for r in tried.refusals)


@MANY
@given(SEEDS)
def test_a_place_is_found_exactly_when_brute_force_finds_one(seed):
    dice = Dice(seed)
    ports = (20000, 20000 + dice.upto(12))
    on = dice.cluster(most_nodes=4, ports=ports)
    profile = dice.profile()
    model = clusters.model("m0", profile, source="/weights/m0.gguf")
    space = planning.space(on, now=NOW, bounds=Bounds(port_range=ports))
    found = planning.plan(space, model, failures=None).placement is not None
    assert found is any(
        works(on, model, profile, group, ports)
        for group in itertools.combinations(on.nodes.values(), profile.nodes)
    )


def works(on, model, profile, group, ports):
    """Whether these nodes together can take the replica, written down anew from the rules."""
    if profile.nodes > 1:
        fabrics = [{f.name for f in n.facts.fabrics if f.hcas} for n in group]
        if not set.intersection(*fabrics):
            return False
    return all(takes(on, model, profile, node, ports) for node in group)


def cards_kept(stray):
    return stray.gpu_indices if stray.cards_until_at > NOW else ()


def takes(on, model, profile, node, ports):
    facts = node.facts
    held = [(r, s) for r in on.replicas.values() for s in r.shards if s.node_id == node.node_id]
    strays = [s for s in on.strays.values() if s.node_id == node.node_id]
    taken_cards = {i for _, s in held for i in s.gpu_indices}
    taken_cards |= {i for s in strays for i in cards_kept(s)}
    free = [
        g
        for g in facts.gpus
        if g.index not in taken_cards
        and g.gpu_class == profile.gpu_class
        and not g.problems
        and (g.memory_used_mib or 0) <= 512
    ]
    here = {n.node_id for n in on.nodes.values() if n.facts.mgmt_addr == facts.mgmt_addr}
    used = {s.http_port for r in on.replicas.values() for s in r.shards if s.node_id in here} | {
        s.http_port for s in on.strays.values() if s.node_id in here
    }
    room = len(set(range(ports[0], ports[1] + 1)) - used)
    has_weights = any(w.path == model.source for w in facts.weights)
    disk = max((d.free_bytes for d in facts.storage), default=None)
    promised_mb = sum(r.memory_claim_gb for r, _ in held) * 1024
    promised_gb = sum(r.disk_claim_gb for r, _ in held if r.ready_at is None)
    return (
        node.liveness is Liveness.READY
        and node.is_connected
        and not node.is_cordoned
        and all(facts.labels.get(k) == v for k, v in profile.node_selector.items())
        and (
            profile.engine == "sim"
            or profile.engine in facts.engine_versions
            or (not facts.engines_probed and not facts.engine_versions)
        )
        and (
            not profile.min_memory_gb
            or facts.memory_total_mb is None
            or promised_mb + profile.min_memory_gb * 1024 <= facts.memory_total_mb
        )
        and (
            not profile.min_disk_gb
            or disk is None
            or has_weights
            or promised_gb + profile.min_disk_gb <= disk / 1024**3
        )
        and (not profile.gpu_class or len(free) >= profile.cards_per_node)
        and room >= (1 if profile.nodes == 1 else profile.nodes + 1)
    )


@MANY
@given(SEEDS)
def test_same_snapshot_gives_the_same_decision_in_any_order_of_nodes(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    mixed = replace(
        on,
        nodes=dict(dice.shuffled(on.nodes.items())),
        replicas=dict(dice.shuffled(on.replicas.items())),
    )
    one = decide(clusters.snapshot(*models, on=on, seed=seed))
    assert one == decide(clusters.snapshot(*models, on=on, seed=seed))
    other = decide(clusters.snapshot(*models, on=mixed, seed=seed))
    assert placements(one) == placements(other)
    assert one.refusals == other.refusals


def placements(decision):
    return [a for a in decision.actions if isinstance(a, Place)]


@MANY
@given(SEEDS)
def test_another_free_node_never_makes_a_model_unplaceable(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    fresh = clusters.node("zz", gpus=4, fabrics=["a"])
    more = replace(on, nodes={**on.nodes, "zz": fresh})
    for model in models:
        before, after = (
            planning.plan(planning.space(c, now=NOW, bounds=Bounds()), model, failures=None)
            for c in (on, more)
        )
        assert before.placement is None or after.placement is not None


@MANY
@given(SEEDS)
def test_cards_share_one_link_domain_whenever_a_known_one_fits(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models()
    space = planning.space(on, now=NOW, bounds=Bounds())
    sites = {s.node_id: s for s in space.sites}
    for model in models:
        outcome = planning.plan(space, model, failures=None, is_full=True)
        for tried in outcome.tried:
            for slot in tried.placement.slots if tried.placement else ():
                gpus = {g.index: g for g in on.nodes[slot.node_id].facts.gpus}
                free = sites[slot.node_id].free_of(tried.profile.gpu_class)
                domains = {frozenset({g.index, *g.nvlink_peers}) for g in gpus.values()}
                known = any(g.nvlink_peers for g in gpus.values())
                count = tried.profile.cards_per_node
                can = [d for d in domains if len([g for g in free if g.index in d]) >= count]
                if known and can and count:
                    assert any(set(slot.gpu_indices) <= d for d in domains)


PROMISES = (
    test_replicas_keep_every_rule_of_shape_and_place,
    test_nothing_is_given_twice_and_no_promise_exceeds_a_total,
    test_what_is_not_placed_has_a_reason_for_every_node_and_every_profile,
    test_a_place_is_found_exactly_when_brute_force_finds_one,
    test_same_snapshot_gives_the_same_decision_in_any_order_of_nodes,
    test_another_free_node_never_makes_a_model_unplaceable,
    test_cards_share_one_link_domain_whenever_a_known_one_fits,
)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.__name__.removeprefix("test_"))
def test_it_holds_over_very_many_clusters_too(promise):
    assert first_broken(promise, seeds=range(VERY_MANY)) is None


@pytest.mark.parametrize("seed", range(3))
def test_random_clusters_are_not_all_alike(seed):
    sizes = {len(Dice(seed * 100 + i).cluster().nodes) for i in range(50)}
    assert len(sizes) > 4
