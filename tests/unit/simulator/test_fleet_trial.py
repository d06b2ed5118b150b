"""Days of a fleet: one seed has one course, mishaps have their effect, and checks look on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmgw.cli import trial_showing
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Scaling
from llmgw.simulator import machines, made_up_models
from llmgw.simulator.daylight import DAY_S
from llmgw.simulator.fleet_trial import FleetTrial, TrialPlan
from llmgw.simulator.mishaps import Kind, Rates
from llmgw.simulator.sim_shards import Habits
from tests.fakes import clusters

HOUR_S = 3600.0


def nodes(count, *hardware):
    kinds = machines.load(hardware)
    return tuple(
        machines.node(kinds[i % len(kinds)], number=i + 1, prefix="sim", serves=False)
        for i in range(count)
    )


def trial(*, on=None, models=None, for_s=6 * HOUR_S, **others):
    everybody = on or nodes(20)
    catalog = catalog_rules.build(models or made_up_models.for_nodes(everybody))
    plan = TrialPlan(
        nodes=everybody, catalog=catalog, for_s=for_s, habits=Habits(load_s=60.0), **others
    )
    return plan, FleetTrial(plan).run()


def shown(plan, outcome):
    told = dict(trial_showing.document(outcome, plan=plan))
    return {key: told[key] for key in told if key not in {"decide_ms", "took_s"}}


def without_failures(**others):
    return {"rates": Rates(), **others}


def test_the_same_seed_has_the_same_course_and_another_one_another():
    everything = Rates(
        {Kind.LOSS: HOUR_S, Kind.FLAP: HOUR_S, Kind.CRASH: HOUR_S, Kind.DRAIN: 2 * HOUR_S}
    )
    one, same, other = (
        shown(*trial(rates=everything, sessions_a_day=10.0, seed=seed)) for seed in (1, 1, 2)
    )
    assert json.dumps(one) == json.dumps(same)
    assert json.dumps(one) != json.dumps(other)
    assert one["broken"] == []


def test_with_nothing_going_wrong_all_that_is_wanted_serves_from_the_first_moment():
    _, outcome = trial(**without_failures())
    assert not outcome.books.actions
    assert all(book.unserved_s == 0 for book in outcome.books.models.values())
    assert outcome.books.spans[0].utilisation > 0.2


def test_a_cold_fleet_is_filled_and_each_start_is_waited_for():
    _, outcome = trial(**without_failures(is_cold=True))
    books = outcome.books
    assert books.actions["Place"] == sum(book.starts for book in books.models.values()) > 4
    assert all(0 < b.unserved_s < HOUR_S for b in books.models.values() if b.starts)
    assert outcome.checks.broken == 0


def test_a_node_without_power_has_its_replicas_placed_elsewhere():
    _, outcome = trial(rates=Rates({Kind.LOSS: HOUR_S / 2}, lost_for_s=1800.0))
    assert outcome.mishaps[Kind.LOSS] > 3
    assert outcome.books.actions["LoseShards"] > 0
    assert outcome.books.actions["Place"] > 0
    assert max(span.mean(span.away_s) for span in outcome.books.spans) >= 0.9


def test_short_cuts_of_the_network_move_nothing():
    _, outcome = trial(rates=Rates({Kind.FLAP: HOUR_S / 2}, cut_s=8.0))
    assert outcome.mishaps[Kind.FLAP] > 3
    assert not outcome.books.actions["Place"]


def test_a_crashed_engine_is_started_again():
    _, outcome = trial(rates=Rates({Kind.CRASH: HOUR_S}))
    assert outcome.books.actions["MarkFailed"] == outcome.mishaps[Kind.CRASH] > 2
    assert outcome.books.actions["Place"] >= outcome.mishaps[Kind.CRASH]


def test_what_an_operator_drains_moves_and_no_model_is_without_a_replica():
    _, outcome = trial(on=nodes(10, "h100-sxm"), rates=Rates({Kind.DRAIN: HOUR_S}))
    assert outcome.books.actions["Move"] > 0
    assert all(book.unserved_s == 0 for book in outcome.books.models.values())


def test_a_mass_loss_takes_neighbours_and_ends():
    plan, outcome = trial(
        on=nodes(20, "a100-pcie"), rates=Rates({Kind.MASS: 2 * HOUR_S}, lost_for_s=600.0)
    )
    assert outcome.mishaps[Kind.MASS] > 0
    assert outcome.checks.broken == 0
    assert max(span.mean(span.away_s) for span in outcome.books.spans) > 1
    assert all(book.unserved_s < plan.for_s / 2 for book in outcome.books.models.values())


def test_who_asks_has_the_model_loaded_and_it_goes_when_nobody_uses_it():
    _, outcome = trial(**without_failures(sessions_a_day=12.0, for_s=DAY_S / 2))
    asked = {n: b for n, b in outcome.books.models.items() if n.startswith("asked-")}
    assert sum(book.starts for book in asked.values()) > 3
    assert outcome.books.actions["Drain"] > 1
    assert all(b.unserved_s < 0.2 * DAY_S for b in asked.values())


def test_a_model_without_room_is_told_as_unplaced_all_the_time_and_breaks_no_check():
    model = clusters.model("huge", clusters.gpu_profile("p", tp=8), min=3)
    on = nodes(2, "h100-sxm")
    plan, outcome = trial(on=on, models=[model], **without_failures())
    book = outcome.books.models["huge"]
    assert book.unplaced_s == pytest.approx(plan.for_s)
    assert book.unserved_s == 0
    assert outcome.checks.broken == 0


def test_replicas_over_two_nodes_serve_from_the_first_moment_too():
    on = nodes(4, "h100-sxm")
    (pair,) = [m for m in made_up_models.for_nodes(on) if m.name.startswith("giant")]
    two = replace(pair, scaling=Scaling(min=2, max=2))
    _, outcome = trial(on=on, models=[two], **without_failures())
    assert outcome.books.models[two.name].unserved_s == 0
    assert outcome.books.spans[5].utilisation == 1.0
