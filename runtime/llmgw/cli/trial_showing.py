"""Writes how days of a simulated fleet went: a page for people, one document for programs."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.cli import figures
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain.catalog import Model
from llmgw.simulator import trial_books
from llmgw.simulator.daylight import DAY_S
from llmgw.simulator.fleet_trial import TrialOutcome, TrialPlan
from llmgw.simulator.trial_books import ModelBook, Span

_COLUMNS = (
    Column("MODEL", is_whole=True),
    Column("WANTED"),
    Column("UNPLACED"),
    Column("UNSERVED"),
    Column("STARTS"),
    Column("FAILURES"),
    Column("MOVES"),
    Column("EVICTIONS"),
)
_DEEDS = {"Place": "starts", "Move": "moves", "MarkFailed": "failures", "Evict": "evictions"}


def summary(screen: Screen, outcome: TrialOutcome, *, plan: TrialPlan) -> None:
    """How it went, for a person."""
    books, checks = outcome.books, outcome.checks
    used = [span.utilisation for span in books.spans]
    done = {_DEEDS[kind]: n for kind, n in books.actions.items() if kind in _DEEDS}
    screen.facts(
        [
            ("FLEET", _fleet(plan)),
            ("TIME", f"{plan.for_s / DAY_S:g} days in {outcome.took_s:.1f} s of a processor"),
            ("MISHAPS", figures.counts(outcome.mishaps)),
            ("SESSIONS", str(outcome.sessions)),
            ("CARDS HELD", f"{_mean_used(outcome):.1%}; {min(used):.1%} to {max(used):.1%}"),
            ("DONE", figures.counts(done)),
            ("PASSES", _passes(outcome)),
            ("CHECKS", "all held" if not checks.broken else f"{checks.broken} did not hold"),
            ("SEED", str(plan.seed)),
        ]
    )
    for sentence in checks.sentences:
        screen.line(f"  {sentence}", style="red")
    screen.line()
    models = plan.catalog.models
    screen.table(_COLUMNS, [_row(models[name], book) for name, book in books.models.items()])


def document(outcome: TrialOutcome, *, plan: TrialPlan) -> Mapping[str, object]:
    """How it went, for a program; only ``decide_ms`` and ``took_s`` differ from run to run."""
    books = outcome.books
    return {
        "nodes": len(plan.nodes),
        "cards": sum(len(facts.gpus) for facts in plan.nodes),
        "duration_s": plan.for_s,
        "seed": plan.seed,
        "passes": outcome.passes,
        "mishaps": {str(kind): n for kind, n in outcome.mishaps.items()},
        "sessions": outcome.sessions,
        "utilisation": _mean_used(outcome),
        "actions": dict(sorted(books.actions.items())),
        "models": {name: _book(book) for name, book in books.models.items()},
        "spans": [_span(span) for span in books.spans],
        "broken_checks": outcome.checks.broken,
        "broken": outcome.checks.sentences,
        "decide_ms": _decide_ms(outcome),
        "took_s": outcome.took_s,
    }


def _fleet(plan: TrialPlan) -> str:
    cards, models = sum(len(facts.gpus) for facts in plan.nodes), len(plan.catalog.models)
    return f"{len(plan.nodes)} nodes with {cards} cards, {models} models"


def _passes(outcome: TrialOutcome) -> str:
    decide = _decide_ms(outcome)
    mean, p95, most = (f"{decide[figure]:.1f} ms" for figure in ("mean", "p95", "max"))
    return f"{outcome.passes}; to decide one took {mean} in the mean, p95 {p95}, most {most}"


def _row(model: Model, book: ModelBook) -> Row:
    scaling = model.scaling
    is_on_demand = scaling is not None and scaling.is_on_demand
    return Row(
        (
            model.name,
            "on demand" if is_on_demand else str(scaling.min if scaling is not None else 0),
            figures.age(book.unplaced_s),
            figures.age(book.unserved_s),
            str(book.starts),
            str(book.failures),
            str(book.moves),
            str(book.evictions),
        )
    )


def _book(book: ModelBook) -> Mapping[str, float]:
    return {
        "unplaced_s": book.unplaced_s,
        "unserved_s": book.unserved_s,
        "starts": book.starts,
        "failures": book.failures,
        "moves": book.moves,
        "evictions": book.evictions,
    }


def _span(span: Span) -> Mapping[str, float]:
    return {
        "utilisation": span.utilisation,
        "nodes_away": span.mean(span.away_s),
        "replicas_unplaced": span.mean(span.lacking_s),
        "models_unserved": span.mean(span.unserved_s),
        "starts": span.starts,
        "moves": span.moves,
        "failures": span.failures,
    }


def _mean_used(outcome: TrialOutcome) -> float:
    spans = outcome.books.spans
    there_s = sum(span.there_s for span in spans)
    return sum(span.held_s for span in spans) / there_s if there_s else 0.0


def _decide_ms(outcome: TrialOutcome) -> Mapping[str, float]:
    took_s = outcome.books.deciding_s
    return {
        "mean": 1000 * sum(took_s) / max(1, len(took_s)),
        "p50": 1000 * trial_books.share(took_s, 0.5),
        "p95": 1000 * trial_books.share(took_s, 0.95),
        "max": 1000 * max(took_s, default=0.0),
    }
