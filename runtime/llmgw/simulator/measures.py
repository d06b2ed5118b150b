"""The counters of a simulated engine, and their text under the names that vLLM uses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_BLOCK_TOKENS = 16


@dataclass(slots=True)
class Measures:
    """What was counted since the process began."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    """Answers by finish reason."""

    aborted: int = 0
    """Requests whose client left before the end."""

    aborted_at_s: float | None = None
    """When the last of them was noticed, by the monotonic clock; absent before the first."""

    failed: int = 0
    """Requests that were answered with an error on purpose."""


@dataclass(frozen=True, slots=True)
class Load:
    """What holds at the instant of a scrape."""

    running: int
    waiting: int
    tokens_held: int
    kv_tokens: int

    @property
    def kv_usage(self) -> float:
        """Share of the pretended KV cache that is in use."""
        return min(1.0, self.tokens_held / self.kv_tokens)


def exposition(measures: Measures, load: Load, *, model: str) -> str:
    """All metrics in Prometheus' text format."""
    who = f'model_name="{model}"'
    blocks = load.kv_tokens // _BLOCK_TOKENS
    lines = [
        *_one("vllm:num_requests_running", "gauge", load.running, who),
        *_one("vllm:num_requests_waiting", "gauge", load.waiting, who),
        *_one("vllm:kv_cache_usage_perc", "gauge", f"{load.kv_usage:.6f}", who),
        *_one("vllm:prompt_tokens_total", "counter", measures.prompt_tokens, who),
        *_one("vllm:generation_tokens_total", "counter", measures.generation_tokens, who),
        "# TYPE vllm:request_success_total counter",
        *(
            f'vllm:request_success_total{{{who},finished_reason="{reason}"}} '
            f"{measures.finished[reason]}"
            for reason in ("stop", "length")
        ),
        *_one(
            "vllm:cache_config_info",
            "gauge",
            1,
            f'{who},block_size="{_BLOCK_TOKENS}",num_gpu_blocks="{blocks}"',
        ),
        *_one("sim:requests_aborted_total", "counter", measures.aborted, who),
        *_one("sim:requests_failed_total", "counter", measures.failed, who),
    ]
    if measures.aborted_at_s is not None:
        at_s = f"{measures.aborted_at_s:.6f}"
        lines += _one("sim:last_abort_monotonic_seconds", "gauge", at_s, who)
    return "\n".join(lines) + "\n"


def _one(name: str, kind: str, value: object, labels: str) -> tuple[str, str]:
    return f"# TYPE {name} {kind}", f"{name}{{{labels}}} {value}"
