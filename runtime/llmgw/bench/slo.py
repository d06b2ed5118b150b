"""What an endpoint has to keep, and what of it a level broke; pure."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.bench.levels import LevelFigures


@dataclass(frozen=True, slots=True)
class Slo:
    """The promises: percentile 95 of both times in seconds, and the share of failed requests."""

    ttft_p95_s: float = 2.0
    tpot_p95_s: float = 0.1
    error_share: float = 0.0

    def broken_by(self, level: LevelFigures) -> tuple[str, ...]:
        """Each broken promise in words; none when the level kept all."""
        said = []
        if level.error_share > self.error_share:
            reason, count = max(level.errors.items(), key=lambda item: item[1])
            failed = sum(level.errors.values())
            said.append(f"{failed} of {level.requests} failed ({count} times: {reason})")
        if level.ttft is None:
            said.append("no request was answered whole")
        elif level.ttft.p95_s > self.ttft_p95_s:
            said.append(f"TTFT p95 {level.ttft.p95_s:.3g} s is over {self.ttft_p95_s:g} s")
        if level.tpot is not None and level.tpot.p95_s > self.tpot_p95_s:
            said.append(
                f"TPOT p95 {level.tpot.p95_s * 1000:.3g} ms is over {self.tpot_p95_s * 1000:g} ms"
            )
        return tuple(said)
