"""Shows what a measurement found: a table and a sentence for people, one document for programs."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.bench.levels import LevelFigures, Spread
from llmgw.bench.run import Judged, Outcome
from llmgw.cli.screens import Column, Row, Screen

_COLUMNS = (
    Column("AT ONCE", is_whole=True),
    Column("REQUESTS"),
    Column("REQ/S"),
    Column("TOKENS/S"),
    Column("TTFT P50"),
    Column("P95"),
    Column("P99"),
    Column("TPOT P50"),
    Column("P95"),
    Column("WAITING"),
    Column("KV"),
    Column("KEPT", is_state=True),
)


def summary(screen: Screen, outcome: Outcome) -> None:
    """The table by concurrency, why levels broke, and the answer in a sentence."""
    ordered = sorted(outcome.levels, key=lambda one: one.figures.concurrency)
    screen.table(_COLUMNS, [_row(one) for one in ordered])
    screen.line()
    screen.line(verdict(outcome))


def verdict(outcome: Outcome) -> str:
    """The answer in a sentence."""
    best = outcome.best
    if best is None:
        return "Not even the first level kept the promises."
    more = "" if outcome.is_bounded else ", and perhaps more: nothing higher was tried (--most)"
    what = f"{best.concurrency} requests at once with {best.tokens_per_s:.0f} tokens/s"
    return f"It carries {what}{more}."


def document(outcome: Outcome) -> Mapping[str, object]:
    """Everything; times in seconds, what was not measured is ``null``."""
    return {
        "best": None if outcome.best is None else _figures(outcome.best),
        "is_bounded": outcome.is_bounded,
        "levels": [{**_figures(one.figures), "broken": list(one.broken)} for one in outcome.levels],
    }


def level_line(one: Judged) -> str:
    """One level as a line of progress."""
    figures = one.figures
    ttft = "-" if figures.ttft is None else f"{figures.ttft.p95_s:.3f} s"
    said = f"; {'; '.join(one.broken)}" if one.broken else ""
    return (
        f"{figures.concurrency} at once: {figures.tokens_per_s:.0f} tokens/s, TTFT p95 {ttft}{said}"
    )


def _row(one: Judged) -> Row:
    figures = one.figures
    ttft, tpot, load = figures.ttft, figures.tpot, figures.load
    return Row(
        cells=(
            str(figures.concurrency),
            str(figures.requests),
            f"{figures.requests_per_s:.1f}",
            f"{figures.tokens_per_s:.0f}",
            *_times(ttft, ("p50_s", "p95_s", "p99_s")),
            *_times(tpot, ("p50_s", "p95_s")),
            None if load.waiting is None else f"{load.waiting:.0f}",
            None if load.kv is None else f"{load.kv:.0%}",
            "no" if one.broken else "yes",
        ),
        under=one.broken,
    )


def _times(spread: Spread | None, names: tuple[str, ...]) -> tuple[str | None, ...]:
    return tuple(
        None if spread is None else f"{getattr(spread, name) * 1000:.1f} ms" for name in names
    )


def _figures(figures: LevelFigures) -> dict[str, object]:
    return {
        "concurrency": figures.concurrency,
        "requests": figures.requests,
        "errors": dict(figures.errors),
        "wall_s": figures.wall_s,
        "requests_per_s": figures.requests_per_s,
        "tokens_per_s": figures.tokens_per_s,
        "ttft_s": _percentiles(figures.ttft),
        "tpot_s": _percentiles(figures.tpot),
        "waiting": figures.load.waiting,
        "kv": figures.load.kv,
    }


def _percentiles(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"p50": spread.p50_s, "p95": spread.p95_s, "p99": spread.p99_s}
