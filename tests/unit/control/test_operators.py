"""Words of operators are kept before they take effect, and are known to the next leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.operators import remembering
from llmgw.control.operators.front_desk import FrontDesk
from llmgw.control.operators.kept_words import Shelves
from llmgw.control.operators.remembering import Memory, recalled
from llmgw.domain.nodes import HeartbeatFacts, NodeTarget
from llmgw.domain.snapshots import Roll
from llmgw.domain.stored import NodeFlag, StoredNode, StoredRoll
from llmgw.errors import (
    Banned,
    Conflict,
    DeadlinePassed,
    Standby,
    Unavailable,
    Unknown,
    Unreachable,
)
from tests.fakes import clusters
from tests.fakes.reconciled import Stage

CORDON, DRAIN, READY = NodeTarget.CORDONED, NodeTarget.DRAINING, NodeTarget.READY


class FakeRows:
    """The rows of nodes and rolls in memory; ``error`` is what the store raises."""

    def __init__(self):
        self.nodes = {}
        self.rolls = {}
        self.error = None
        self.lost_answer = None
        self.pruned = []
        self.seen_times = 0

    def check(self):
        if self.error is not None:
            raise self.error

    def answer(self):
        error, self.lost_answer = self.lost_answer, None
        if error is not None:
            raise error


class FakeNodeRows:
    def __init__(self, rows):
        self._rows = rows

    async def all(self):
        self._rows.check()
        return list(self._rows.nodes.values())

    async def flag(self, node_id, flag, *, owner):
        await asyncio.sleep(0)
        self._rows.check()
        self._rows.nodes[node_id] = StoredNode(
            node_id,
            enrolled_at=0.0,
            target=flag.target,
            reason=flag.reason,
            actor=flag.actor,
            since=flag.at,
        )
        self._rows.answer()

    async def ban(self, node_id, *, is_banned, owner):
        self._rows.check()
        if node_id not in self._rows.nodes:
            raise Unknown("no such node")
        held = self._rows.nodes[node_id]
        self._rows.nodes[node_id] = replace(held, is_banned=is_banned)

    async def forget(self, node_id, *, owner):
        self._rows.check()
        if self._rows.nodes.pop(node_id, None) is None:
            raise Unknown("no such node")

    async def seen(self, told, *, at):
        self._rows.check()
        self._rows.seen_times += 1
        for node_id in told:
            held = self._rows.nodes.get(node_id) or StoredNode(node_id, enrolled_at=at)
            self._rows.nodes[node_id] = replace(held, facts=told[node_id], seen_at=at)

    async def prune(self, *, before):
        self._rows.pruned.append(before)
        return 0


class FakeRollRows:
    def __init__(self, rows):
        self._rows = rows

    async def all(self):
        self._rows.check()
        return list(self._rows.rolls.values())

    async def put(self, roll, *, owner):
        self._rows.check()
        self._rows.rolls[roll.model] = roll
        self._rows.answer()

    async def halt(self, model, *, reason, owner):
        self._rows.check()
        held = self._rows.rolls[model]
        self._rows.rolls[model] = StoredRoll(model, held.begun_at, held.may_interrupt, "", reason)

    async def end(self, model, *, owner):
        self._rows.check()
        self._rows.rolls.pop(model, None)


class Desk:
    """A reconciler with what hears and keeps operators' words."""

    def __init__(self, *models, rows=None, **options):
        self.stage = Stage(*models, **options)
        self.rows = rows or FakeRows()
        shelves = Shelves(FakeNodeRows(self.rows), FakeRollRows(self.rows), "cp-1")
        fleet, clock = self.stage.reconciler.instructions, self.stage.clock
        self.memory = Memory(fleet, shelves=shelves, clock=clock)
        self.reception = FrontDesk(fleet, shelves=shelves, memory=self.memory, clock=clock)
        self.memory.lead(is_leading=True)

    async def say(self, node_id, target, *, reason="", actor="ann"):
        return await self.reception.set_node_state(
            node_id, target=target, reason=reason, actor=actor
        )

    def node(self, node_id):
        return next(v for v in self.stage.reconciler.nodes() if v.node_id == node_id)


class Deposed(SoleLeader):
    """Leads until it is told otherwise."""

    leads = True

    def is_leader(self):
        return self.leads


@pytest.fixture
def desk():
    made = Desk(clusters.model("m"))
    made.stage.register("n1")
    return made


async def test_a_cordon_its_reason_and_who_said_it_survive_a_restart(desk):
    await desk.say("n1", CORDON, reason="new fan")
    after = Desk(clusters.model("m"), rows=desk.rows)
    await after.memory.load()
    after.stage.register("n1")
    view = after.node("n1")
    assert (view.state, view.flag_reason, view.flag_actor) == ("cordoned", "new fan", "ann")


async def test_a_word_that_was_taken_back_stays_so_after_a_restart(desk):
    await desk.say("n1", DRAIN, reason="x")
    await desk.say("n1", READY)
    after = Desk(clusters.model("m"), rows=desk.rows)
    await after.memory.load()
    after.stage.register("n1")
    assert (after.node("n1").state, after.node("n1").flag_actor) == ("ready", "")


async def test_nothing_is_placed_on_a_node_that_was_cordoned_before_the_restart(desk):
    await desk.say("n1", CORDON)
    after = Desk(clusters.model("m"), rows=desk.rows)
    await after.memory.load()
    async with after.stage.running() as stage:
        stage.register("n1")
        await stage.some_passes()
        assert stage.dispatcher.orders == []
        reason = stage.reconciler.explain("m").profiles[0].nodes[0].reason
        assert reason == "it is cordoned by ann"


async def test_the_same_word_again_keeps_its_reason_in_the_store_too(desk):
    await desk.say("n1", DRAIN, reason="new fan")
    await desk.say("n1", DRAIN)
    assert desk.rows.nodes["n1"].reason == desk.node("n1").flag_reason == "new fan"


@pytest.mark.parametrize("target", [CORDON, DRAIN])
async def test_a_store_that_is_away_is_told_and_nothing_takes_effect(desk, target):
    desk.rows.error = Unreachable("the store does not answer")
    with pytest.raises(Unreachable, match="nothing was changed: the store does not answer"):
        await desk.say("n1", target)
    assert desk.node("n1").state == "ready"
    desk.rows.error = None
    await desk.memory.look()
    assert desk.node("n1").state == "ready"
    assert desk.rows.nodes["n1"].target is READY


async def test_a_word_that_was_kept_though_the_answer_was_lost_takes_effect_later(desk):
    desk.rows.lost_answer = DeadlinePassed("the store did not answer within 5 s")
    with pytest.raises(
        DeadlinePassed, match="whether it was kept comes out when the store answers"
    ):
        await desk.say("n1", CORDON)
    assert desk.node("n1").state == "ready"
    await desk.memory.look()
    assert desk.node("n1").state == "cordoned"


async def test_a_word_that_is_called_off_while_it_is_kept_holds_if_it_was_kept(desk):
    word = asyncio.create_task(desk.say("n1", CORDON))
    await asyncio.sleep(0)
    word.cancel()
    with pytest.raises(asyncio.CancelledError):
        await word
    desk.rows.nodes["n1"] = StoredNode("n1", enrolled_at=0.0, target=CORDON, actor="ann")
    await desk.memory.look()
    assert desk.node("n1").state == "cordoned"


async def test_a_lead_that_ends_while_the_word_is_kept_refuses_it():
    desk = Desk(clusters.model("m"), leadership=Deposed())
    desk.stage.register("n1")
    word = asyncio.create_task(desk.say("n1", CORDON))
    await asyncio.sleep(0)
    desk.stage.leadership.leads = False
    with pytest.raises(Standby):
        await word
    assert desk.node("n1").state == "ready"


async def test_words_are_heard_one_at_a_time_and_the_last_one_holds(desk):
    words = [desk.say("n1", target) for target in (CORDON, DRAIN, READY, CORDON)]
    await asyncio.gather(*words)
    assert desk.rows.nodes["n1"].target is CORDON
    assert desk.node("n1").state == "cordoned"


async def test_an_unknown_node_leaves_no_row(desk):
    with pytest.raises(Unknown):
        await desk.say("nosuch", CORDON)
    assert "nosuch" not in desk.rows.nodes


async def test_a_forgotten_node_is_awaited_no_more(desk):
    await desk.memory.look()
    with pytest.raises(Conflict):
        await desk.reception.forget_node("n1")
    assert "n1" in desk.rows.nodes
    desk.stage.reconciler.stream_lost("n1")
    await desk.reception.forget_node("n1")
    assert desk.rows.nodes == {}


async def test_a_node_that_was_never_written_down_is_forgotten_too(desk):
    desk.stage.reconciler.stream_lost("n1")
    await desk.reception.forget_node("n1")
    assert desk.stage.reconciler.nodes() == ()


async def test_without_a_store_words_hold_until_the_process_ends():
    stage = Stage(clusters.model("m"))
    memory = Memory(stage.reconciler.instructions, shelves=None, clock=stage.clock)
    reception = FrontDesk(
        stage.reconciler.instructions, shelves=None, memory=memory, clock=stage.clock
    )
    stage.register("n1")
    view = await reception.set_node_state("n1", target=CORDON, reason="x", actor="ann")
    await memory.load()
    await memory.look()
    stage.register("n1")
    assert (view.state, stage.reconciler.nodes()[0].state) == ("cordoned", "cordoned")


# Rolls


def old_and_new():
    """A model before and after its profile was edited."""
    made = [clusters.profile(args=("--old",)), clusters.profile(args=("--new",))]
    return [clusters.model("m", one, aliases=("alias",)) for one in made]


async def test_a_roll_goes_on_after_a_restart_when_its_replicas_are_back():
    old, new = old_and_new()
    desk = Desk(new)
    view = await desk.reception.roll("alias", may_interrupt=True, actor="ann")
    assert view.name == "m"
    after = Desk(new, rows=desk.rows)
    await after.memory.load()
    async with after.stage.running() as stage:
        await stage.some_passes()
        (roll,) = stage.reconciler.instructions.rolls_now().values()
        assert (roll.model, roll.may_interrupt, roll.halted) == ("m", True, "")
        fingerprint = old.profiles[0].fingerprint(model=old)
        stage.register("n1", clusters.running("m-1", profile_fp=fingerprint))
        await stage.until(lambda: len(stage.reconciler.replicas()) == 2)
    assert {r.is_stale_profile for r in after.stage.reconciler.replicas()} == {True, False}


async def test_a_roll_that_could_not_be_kept_does_not_begin():
    desk = Desk(clusters.model("m"))
    desk.rows.error = Unreachable("away")
    with pytest.raises(Unreachable):
        await desk.reception.roll("m", may_interrupt=False, actor="ann")
    assert desk.stage.reconciler.instructions.rolls_now() == {}
    with pytest.raises(Unknown):
        await desk.reception.roll("nosuch", may_interrupt=False, actor="ann")


async def test_what_becomes_of_a_roll_is_kept():
    desk = Desk(clusters.model("m"), clusters.model("other"))
    for name in ("m", "other"):
        await desk.reception.roll(name, may_interrupt=False, actor="ann")
    desk.stage.reconciler.instructions.begin_roll(Roll("m", begun_at=1.0, halted="it failed"))
    await desk.memory.look()
    assert {m: roll.halted for m, roll in desk.rows.rolls.items()} == {
        "m": "it failed",
        "other": "",
    }
    async with desk.stage.running() as stage:
        stage.register("n1")
        await stage.until(lambda: not stage.reconciler.instructions.rolls_now())
    await desk.memory.look()
    assert desk.rows.rolls == {}


def test_the_age_of_a_roll_is_counted_over_the_restart():
    row = StoredRoll("m", begun_at=500.0)
    words = recalled([], [row], wall=560.0, now=10.0)
    assert words.rolls["m"].begun_at == -50.0


# Nodes that are awaited


def seen(node_id, at, **others):
    return StoredNode(node_id, enrolled_at=0.0, seen_at=at, **others)


def test_nodes_that_were_there_when_any_was_last_are_awaited():
    rows = [seen("a", 1000.0), seen("b", 990.0), seen("old", 100.0), StoredNode("new", 0.0)]
    words = recalled(rows, [], wall=9e9, now=0.0)
    assert words.present == {"a", "b"}
    assert words.flags == {}


def test_only_words_that_hold_are_recalled():
    rows = [seen("a", 1.0, target=CORDON, reason="x", actor="ann", since=5.0), seen("b", 1.0)]
    assert recalled(rows, [], wall=0.0, now=0.0).flags == {"a": NodeFlag(CORDON, "x", "ann", 5.0)}


async def test_a_restarted_server_waits_for_the_nodes_that_were_there_and_no_longer():
    desk = Desk(clusters.model("m"), expected=())
    for name in ("n1", "n2"):
        desk.stage.register(name)
    await desk.memory.look()
    after = Desk(clusters.model("m"), rows=desk.rows, expected=())
    await after.memory.load()
    async with after.stage.running() as stage:
        stage.register("n1")
        await stage.some_passes()
        assert stage.reconciler.status().control.settling_left_s is not None
        assert stage.dispatcher.orders == []
        stage.register("n2")
        await stage.until(lambda: stage.reconciler.status().control.settling_left_s is None)


async def test_presence_is_written_at_once_for_the_new_and_now_and_then_for_all(desk):
    await desk.memory.look()
    await desk.memory.look()
    assert (list(desk.rows.nodes), desk.rows.seen_times) == (["n1"], 1)
    desk.stage.clock.advance(30)
    desk.stage.register("n2")
    await desk.memory.look()
    assert desk.rows.nodes["n1"].seen_at < desk.rows.nodes["n2"].seen_at
    desk.stage.clock.advance(30)
    await desk.memory.look()
    assert desk.rows.nodes["n1"].seen_at == desk.rows.nodes["n2"].seen_at
    assert desk.rows.seen_times == 3
    assert len(desk.rows.pruned) == 1


async def test_a_standby_keeps_nothing(desk):
    desk.memory.lead(is_leading=False)
    await desk.memory.look()
    assert desk.rows.nodes == {}


async def test_what_could_not_be_written_is_written_later(desk):
    desk.rows.error = Unreachable("away")
    task = asyncio.create_task(desk.memory.run())
    desk.memory.lead(is_leading=True)
    await desk.stage.some_passes()
    assert not task.done()
    desk.rows.error = None
    desk.memory.lead(is_leading=True)
    await desk.stage.until(lambda: "n1" in desk.rows.nodes)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_who_leads_again_knows_what_the_other_was_told_meanwhile(desk):
    await desk.say("n1", CORDON, reason="mine")
    desk.stage.reconciler.stand_by()
    desk.rows.nodes["n1"] = seen("n1", 5.0, target=DRAIN, reason="theirs", actor="bob")
    await desk.memory.load()
    desk.stage.register("n1")
    view = desk.node("n1")
    assert (view.state, view.flag_reason, view.flag_actor) == ("draining", "theirs", "bob")


# Nodes that are known and have not come back


@pytest.fixture
async def after(desk):
    """The desk after a restart, with nodes that have registered before and not since."""
    desk.stage.register("n2", hostname="two", labels={"rack": "r1"})
    await desk.memory.look()
    made = Desk(clusters.model("m"), rows=desk.rows, expected=())
    await made.memory.load()
    return made


async def test_nodes_that_have_not_come_back_are_shown_and_lost_in_time(after):
    nodes = after.stage.reconciler.nodes
    assert [(n.node_id, n.state) for n in nodes()] == [("n1", "unreachable"), ("n2", "unreachable")]
    assert (after.node("n2").hostname, after.node("n2").labels) == ("two", {"rack": "r1"})
    after.stage.register("n1")
    after.stage.clock.advance(61)
    assert [(n.node_id, n.state) for n in nodes()] == [("n1", "ready"), ("n2", "lost")]
    assert after.stage.reconciler.status().nodes_by_state["lost"] == 1
    assert set(after.stage.reconciler.instructions.nodes_now()) == {"n1"}, "no pass sees the other"


async def test_a_word_on_a_node_that_has_not_come_back_waits_for_it(after):
    view = await after.say("n2", DRAIN, reason="new fan")
    assert (view.target, view.flag_reason, view.flag_actor) == (DRAIN, "new fan", "ann")
    assert after.rows.nodes["n2"].target is DRAIN
    after.stage.register("n2")
    assert (after.node("n2").state, after.node("n2").flag_reason) == ("draining", "new fan")
    await after.say("n1", CORDON)
    await after.say("n1", READY)
    after.stage.register("n1")
    assert after.node("n1").state == "ready"


async def test_a_node_that_has_not_come_back_is_forgotten_once_it_had_the_time_to(after):
    with pytest.raises(Conflict, match="n2 may register yet"):
        await after.reception.forget_node("n2")
    after.stage.clock.advance(61)
    await after.reception.forget_node("n2")
    assert "n2" not in after.rows.nodes
    assert [n.node_id for n in after.stage.reconciler.nodes()] == ["n1"]
    with pytest.raises(Unknown):
        await after.say("n2", CORDON)


async def test_who_stands_by_knows_of_nobody(after):
    after.stage.reconciler.stand_by()
    assert after.stage.reconciler.nodes() == ()


async def test_what_another_release_wrote_of_a_node_leaves_its_name():
    rows = FakeRows()
    rows.nodes["n1"] = StoredNode("n1", enrolled_at=0.0, facts={"labels": 7})
    desk = Desk(clusters.model("m"), rows=rows)
    await desk.memory.load()
    assert (desk.node("n1").hostname, desk.node("n1").labels) == ("", {})


@pytest.mark.parametrize("is_kept", [True, False], ids=["with a store", "without"])
async def test_a_node_lost_for_long_is_forgotten_unless_something_was_said_of_it(
    is_kept, monkeypatch
):
    monkeypatch.setattr(remembering, "FORGOTTEN_AFTER_S", 100.0)
    desk = Desk(clusters.model("m"))
    memory = desk.memory
    if not is_kept:
        memory = Memory(desk.stage.reconciler.instructions, shelves=None, clock=desk.stage.clock)
        memory.lead(is_leading=True)
    for name in ("n1", "n2", "n3"):
        desk.stage.register(name)
    await desk.say("n2", CORDON)
    async with desk.stage.running() as stage:
        for name in ("n1", "n2"):
            stage.reconciler.stream_lost(name)
        for turns, left in ((33, 3), (2, 2)):
            for _ in range(turns):
                stage.clock.advance(3)
                assert stage.reconciler.heartbeat("n3", HeartbeatFacts())
                stage.reconciler.wake()
                await stage.until(lambda: stage.reconciler._pass_at == stage.clock.monotonic())
            await memory.look()
            assert desk.node("n2").state == "lost"
            assert len(stage.reconciler.nodes()) == left
    assert [n.node_id for n in desk.stage.reconciler.nodes()] == ["n2", "n3"]


# Bans


async def test_a_banned_node_is_not_let_in_and_hears_why_until_it_is_let_in_again(desk):
    await desk.memory.look()
    view = await desk.reception.ban_node("n1", is_banned=True)
    assert (view.is_banned, view.state) == (True, "banned")
    [(node_id, reason)] = desk.stage.dispatcher.dismissed
    assert (node_id, reason.code) == ("n1", "banned"), "its stream ends now, and it hears why"
    assert not desk.stage.reconciler.heartbeat("n1", HeartbeatFacts()), "its stream ends"
    with pytest.raises(Banned, match="'n1' is banned here; 'llmgw ctl unban n1' lets it in again"):
        desk.stage.register("n1")
    view = await desk.reception.ban_node("n1", is_banned=False)
    desk.stage.register("n1")
    assert (view.is_banned, view.state) == (False, "ready")
    assert len(desk.stage.dispatcher.dismissed) == 1
    assert desk.stage.reconciler.heartbeat("n1", HeartbeatFacts())


async def test_a_ban_in_the_store_holds_for_whoever_leads_next(desk):
    await desk.memory.look()
    await desk.reception.ban_node("n1", is_banned=True)
    after = Desk(clusters.model("m"), rows=desk.rows)
    await after.memory.load()
    with pytest.raises(Banned):
        after.stage.register("n1")
    assert after.node("n1").is_banned
    assert after.node("n1").state == "banned", "though it is not there"


async def test_a_ban_that_cannot_be_kept_does_not_hold(desk):
    with pytest.raises(Unavailable, match="n1 has just registered"):
        await desk.reception.ban_node("n1", is_banned=True)
    with pytest.raises(Unknown):
        await desk.reception.ban_node("nosuch", is_banned=True)
    desk.stage.register("n1")
    assert not desk.node("n1").is_banned
