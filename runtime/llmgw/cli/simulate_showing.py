"""Writes how a simulation ended: a few lines for people, one document for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.cli import figures
from llmgw.cli.screens import Screen
from llmgw.simulator.census import Census
from llmgw.simulator.resident import Used
from llmgw.simulator.sim_fleet import FleetPlan


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last look, when all nodes were in for the first time, and what it cost here."""

    census: Census
    complete_s: float | None
    mishaps: int
    used: Used


def summary(screen: Screen, outcome: Outcome, *, plan: FleetPlan) -> None:
    """How it went, for a person."""
    now = outcome.census
    all_in = "-" if outcome.complete_s is None else f"{outcome.complete_s:.1f} s"
    each = _each(outcome, plan=plan)
    screen.facts(
        [
            ("nodes", f"{now.nodes}, of which {now.ever_registered} got in"),
            ("all in after", all_in),
            ("heartbeats", str(now.beats)),
            ("shards", figures.counts({str(s): n for s, n in now.shards.items()})),
            ("mishaps", str(outcome.mishaps)),
            ("memory here", figures.size(outcome.used.memory_bytes)),
            ("  for a node", figures.size(each)),
            ("cores here", f"{_cores(outcome):.2f}"),
            ("seed", str(plan.seed)),
        ]
    )
    if now.refusal:
        screen.line(f"outside: {now.refusal}", style="yellow")


def document(outcome: Outcome, *, plan: FleetPlan) -> Mapping[str, object]:
    """How it went, for a program."""
    now = outcome.census
    return {
        "nodes": now.nodes,
        "registered": now.registered,
        "ever_registered": now.ever_registered,
        "all_in_after_s": outcome.complete_s,
        "duration_s": now.after_s,
        "heartbeats": now.beats,
        "shards": {str(state): n for state, n in now.shards.items()},
        "mishaps": outcome.mishaps,
        "refusal": now.refusal,
        "memory_bytes": outcome.used.memory_bytes,
        "memory_bytes_each": _each(outcome, plan=plan),
        "cores": _cores(outcome),
        "seed": plan.seed,
    }


def _each(outcome: Outcome, *, plan: FleetPlan) -> int | None:
    total = outcome.used.memory_bytes
    return None if total is None else total // plan.count


def _cores(outcome: Outcome) -> float:
    return outcome.used.cpu_s / max(outcome.census.after_s, 0.001)
