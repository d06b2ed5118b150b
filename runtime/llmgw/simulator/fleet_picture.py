"""Draws a trial as SVG: how full the fleet was, what was missing, and what was done; pure.

One picture of three panels over one axis of time, each with its own scale from zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from llmgw.simulator.trial_books import Span

_WIDTH, _LEFT, _RIGHT = 960, 64, 24
_TOP, _PANEL, _GAP, _FOOT = 56, 150, 62, 40
_PLOT = _WIDTH - _LEFT - _RIGHT
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_MOST_TICKS = 10
_BLUE, _ORANGE, _RED, _GREY, _GREEN = "#2563a8", "#d97706", "#c2362b", "#6b7280", "#3f8f5b"
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2937}"
    ".title{font-size:16px;font-weight:600}.quiet{fill:#6b7280}"
    ".grid{stroke:#e5e7eb;stroke-width:1}.axis{stroke:#9ca3af;stroke-width:1}"
)


@dataclass(frozen=True, slots=True)
class _Series:
    """One line or one sort of bars: its name in the legend, its colour, a value a span."""

    name: str
    colour: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Panel:
    """One scale over the common time; ``top`` is the value at its upper edge."""

    title: str
    unit: str
    top: float
    series: Sequence[_Series]
    is_bars: bool = False


def svg(spans: Sequence[Span], *, title: str, for_s: float) -> str:
    """The picture as one SVG document."""
    panels = _panels(spans)
    height = _TOP + len(panels) * _PANEL + (len(panels) - 1) * _GAP + _FOOT
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    label = escape(title, {'"': "&quot;"})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, kind="title"),
    ]
    for number, panel in enumerate(panels):
        top = _TOP + number * (_PANEL + _GAP)
        parts += _frame(panel, top, for_s=for_s)
        parts += _bars(panel, top) if panel.is_bars else _lines(panel, top)
        parts += _legend(panel, top)
    parts += _time_axis(_TOP + len(panels) * _PANEL + (len(panels) - 1) * _GAP, for_s)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panels(spans: Sequence[Span]) -> Sequence[_Panel]:
    held = _Series("cards held by replicas", _BLUE, [100 * s.utilisation for s in spans])
    waits = (
        _Series("replicas without a place", _ORANGE, [s.mean(s.lacking_s) for s in spans]),
        _Series("models that nobody serves", _RED, [s.mean(s.unserved_s) for s in spans]),
        _Series("nodes away", _GREY, [s.mean(s.away_s) for s in spans]),
    )
    deeds = (
        _Series("starts", _BLUE, [float(s.starts) for s in spans]),
        _Series("moves", _GREEN, [float(s.moves) for s in spans]),
        _Series("failures", _RED, [float(s.failures) for s in spans]),
    )
    highest = max(
        (sum(values) for values in zip(*(d.values for d in deeds), strict=True)), default=0
    )
    return (
        _Panel("Utilisation", "%", 100.0, (held,)),
        _Panel("What is missing", "", _rounded_up(max(map(_highest, waits))), waits),
        _Panel("What is done", "", _rounded_up(highest), deeds, is_bars=True),
    )


def _highest(series: _Series) -> float:
    return max(series.values, default=0.0)


def _rounded_up(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 or 10 times a power of ten, so that a quarter of it is readable."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)


def _frame(panel: _Panel, top: int, *, for_s: float) -> Iterator[str]:
    yield _text(_LEFT, top - 10, panel.title)
    for quarter in range(5):
        y = top + _PANEL - quarter * _PANEL / 4
        yield f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        value = f"{panel.top * quarter / 4:g}{panel.unit}"
        yield _text(_LEFT - 8, y + 4, value, kind="quiet", anchor="end")
    for at_s in _ticks(for_s):
        x = _LEFT + _PLOT * at_s / for_s
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + _PANEL}"/>'


def _lines(panel: _Panel, top: int) -> Iterator[str]:
    for place, series in enumerate(panel.series):
        points = [
            (_x(number + 0.5, len(series.values)), _y(value, panel, top))
            for number, value in enumerate(series.values)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if not place and points:
            base = top + _PANEL
            area = f"{points[0][0]:.1f},{base} {path} {points[-1][0]:.1f},{base}"
            yield f'<polygon points="{area}" fill="{series.colour}" fill-opacity="0.15"/>'
        yield f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="1.5"/>'


def _bars(panel: _Panel, top: int) -> Iterator[str]:
    """Stacked: what was done in one span stands in one column."""
    spans = max((len(series.values) for series in panel.series), default=0)
    width = max(1.0, _PLOT / max(1, spans) - 0.5)
    for number in range(spans):
        below = 0.0
        for series in panel.series:
            value = series.values[number]
            if value:
                y, base = _y(below + value, panel, top), _y(below, panel, top)
                yield (
                    f'<rect x="{_x(number, spans):.1f}" y="{y:.1f}" width="{width:.1f}" '
                    f'height="{base - y:.1f}" fill="{series.colour}"/>'
                )
            below += value


def _legend(panel: _Panel, top: int) -> Iterator[str]:
    x = _LEFT + 150.0
    for series in panel.series:
        yield f'<rect x="{x:.0f}" y="{top - 19}" width="10" height="10" fill="{series.colour}"/>'
        yield _text(x + 15, top - 10, series.name, kind="quiet")
        x += 32 + 6.6 * len(series.name)


def _time_axis(bottom: int, for_s: float) -> Iterator[str]:
    yield f'<line class="axis" x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{bottom}" y2="{bottom}"/>'
    for at_s in _ticks(for_s):
        x = _LEFT + _PLOT * at_s / for_s
        shown = f"day {at_s / _DAY_S:g}" if for_s > 2 * _DAY_S else f"{at_s / _HOUR_S:g} h"
        yield _text(x, bottom + 20, shown, kind="quiet", anchor="middle")


def _ticks(for_s: float) -> Sequence[float]:
    """Whole days or hours, not too many of them."""
    unit_s = _DAY_S if for_s > 2 * _DAY_S else _HOUR_S
    step_s = unit_s * max(1, math.ceil(for_s / unit_s / _MOST_TICKS))
    return [step_s * number for number in range(int(for_s / step_s) + 1)]


def _x(place: float, spans: int) -> float:
    return _LEFT + _PLOT * place / max(1, spans)


def _y(value: float, panel: _Panel, top: int) -> float:
    return top + _PANEL * (1 - min(1.0, value / panel.top))


def _text(x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'
