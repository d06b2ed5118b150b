"""What each engine calls the figures that routing needs, and how they are read from its page; pure.

Names as the engines publish them: vLLM (0.6 and later; ``gpu_cache_usage_perc`` became
``kv_cache_usage_perc``), SGLang, llama.cpp's server (whose newer builds have no
``kv_cache_usage_ratio``) and the sim engine, which speaks as vLLM does.  An engine whose kind
nobody named is known by its page, else read with vLLM's names.  What is not published is absent,
which is not zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Names:
    """For each figure the names by which versions of an engine publish it, the newest first.

    ``running`` and ``waiting`` every page has to have; ``promised`` are further figures that all
    versions publish.  ``progress`` are counters of which at least one moves while the engine works;
    ``steady`` are those of them that move within seconds then: where the page has one, its standing
    still tells of a hang.
    """

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv: tuple[str, ...]
    successes: tuple[str, ...]
    progress: tuple[str, ...]
    promised: tuple[str, ...]
    steady: tuple[str, ...]


_VLLM = Names(
    running=("vllm:num_requests_running",),
    waiting=("vllm:num_requests_waiting",),
    kv=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    successes=("vllm:request_success_total",),
    progress=("vllm:generation_tokens_total", "vllm:prompt_tokens_total"),
    promised=("kv", "successes", "progress"),
    steady=("vllm:generation_tokens_total",),
)
_SGLANG = Names(
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv=("sglang:token_usage",),
    successes=("sglang:num_requests_total",),
    # The other two move only when a request ends (0.5.2 has no more than these).
    progress=(
        "sglang:realtime_tokens_total",
        "sglang:generation_tokens_total",
        "sglang:prompt_tokens_total",
    ),
    promised=("kv", "progress"),
    steady=("sglang:realtime_tokens_total",),
)
_LLAMACPP = Names(
    running=("llamacpp:requests_processing",),
    waiting=("llamacpp:requests_deferred",),
    kv=("llamacpp:kv_cache_usage_ratio",),
    successes=(),
    # Its token counters move only when a request ends, and none moves within one long prompt.
    progress=("llamacpp:n_decode_total", "llamacpp:tokens_predicted_total"),
    promised=(),
    steady=(),
)

BY_ENGINE: Mapping[str, Names] = {"sglang": _SGLANG, "llamacpp": _LLAMACPP}


def of(engine: str, page: bytes = b"") -> Names:
    """The names of an engine's kind; of one that nobody named those on its page."""
    if not engine:
        engine = next((kind for kind in BY_ENGINE if f"\n{kind}:".encode() in b"\n" + page), "")
    return BY_ENGINE.get(engine, _VLLM)


@dataclass(frozen=True, slots=True)
class Reading:
    """One page of metrics; ``kv`` is a share, ``progress`` a sum of counters that only rises.

    ``is_steady`` where it has one of the steady counters; ``lacks`` are the promised figures that
    it does not have.
    """

    running: float
    waiting: float
    kv: float | None = None
    successes: float | None = None
    progress: float | None = None
    is_steady: bool = True
    lacks: tuple[str, ...] = ()


def read(page: bytes, names: Names) -> Reading | tuple[str, ...]:
    """The figures of a page, or the names that it lacks and may not lack.

    Series that differ in labels are summed, those of a share averaged.
    """
    series = _series(page)
    running, waiting = _sum(series, names.running), _sum(series, names.waiting)
    if running is None or waiting is None:
        absent = [
            n[0] for n, v in ((names.running, running), (names.waiting, waiting)) if v is None
        ]
        return tuple(absent)
    moved = [value for name in names.progress if (value := _sum(series, (name,))) is not None]
    found = {
        "kv": _mean(series, names.kv),
        "successes": _sum(series, names.successes),
        "progress": sum(moved) if moved else None,
    }
    return Reading(
        running=running,
        waiting=waiting,
        **found,
        is_steady=any(name in series for name in names.steady),
        lacks=tuple(
            getattr(names, figure)[0] for figure in names.promised if found[figure] is None
        ),
    )


def _series(page: bytes) -> dict[str, list[float]]:
    series: dict[str, list[float]] = {}
    for name, text in _SAMPLE.findall(page):
        try:
            value = float(text)
        except ValueError:
            continue
        if value == value and value >= 0:  # noqa: PLR0124 - no NaN
            series.setdefault(name.decode(), []).append(value)
    return series


def _sum(series: Mapping[str, list[float]], names: tuple[str, ...]) -> float | None:
    found = next((series[name] for name in names if name in series), None)
    return None if found is None else sum(found)


def _mean(series: Mapping[str, list[float]], names: tuple[str, ...]) -> float | None:
    found = next((series[name] for name in names if name in series), None)
    return None if found is None else min(sum(found) / len(found), 1.0)
