"""How an endpoint is measured: the options of the commands that measure, and the run."""

from __future__ import annotations

import asyncio
import secrets as randomness
from dataclasses import dataclass

import click

from llmgw.bench.driver import Driver, Load, Target
from llmgw.bench.prompts import prompts
from llmgw.bench.ramp import Ramp
from llmgw.bench.run import Outcome, run
from llmgw.bench.slo import Slo
from llmgw.cli.bench_progress import BenchProgress
from llmgw.cli.option_groups import Command, Option, bundled
from llmgw.cli.params import DURATION

_AFTER_LEVEL = 10
_LONGEST_S = 60.0
"""A request may take ten times the length of its level, or a minute if that is more."""

_SEED_BITS = 32


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is sent, how the load rises, and which promises it is to keep."""

    prompt_tokens: int
    shared_tokens: int
    load: Load
    slo: Slo
    ramp: Ramp
    seed: int

    def measure(self, target: Target) -> Outcome:
        """Raise the load on an endpoint until the promises break; progress to standard error."""
        made = prompts(tokens=self.prompt_tokens, shared_tokens=self.shared_tokens, seed=self.seed)
        return asyncio.run(self._measured(Driver(target, self.load, prompts=made)))

    async def _measured(self, driver: Driver) -> Outcome:
        async with driver:
            await driver.check()
            with BenchProgress.shown() as progress:
                return await run(
                    driver,
                    ramp=self.ramp,
                    slo=self.slo,
                    on_begin=progress.begin,
                    on_level=progress.level,
                )


_OPTIONS: tuple[Option, ...] = (
    click.option("--prompt-tokens", type=click.IntRange(1), default=256, show_default=True),
    click.option("--output-tokens", type=click.IntRange(2), default=128, show_default=True),
    click.option(
        "--shared-prefix",
        "shared_tokens",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        metavar="TOKENS",
        help="How much of all prompts is the same; without it no cache helps.",
    ),
    click.option("--slo-ttft", "ttft_s", type=DURATION, default="2s", show_default=True),
    click.option("--slo-tpot-ms", type=click.FloatRange(min=0.0), default=100.0, show_default=True),
    click.option(
        "--slo-errors",
        "error_share",
        type=click.FloatRange(0.0, 1.0),
        default=0.0,
        show_default=True,
        help="Share of requests that may fail.",
    ),
    click.option("--start", "first", type=click.IntRange(1), default=1, show_default=True),
    click.option(
        "--most",
        type=click.IntRange(1),
        default=256,
        show_default=True,
        help="Highest number of requests at once that is tried.",
    ),
    click.option(
        "--level-time",
        "level_s",
        type=DURATION,
        default="15s",
        show_default=True,
        help="How long each level is driven.",
    ),
    click.option("--seed", type=int, help="Makes the prompts those of an earlier run."),
)


def measuring(command: Command) -> Command:
    """Add how is measured; the command takes it as ``measuring``."""
    return bundled(command, _OPTIONS, name="measuring", make=_measuring)


def _measuring(
    *,
    prompt_tokens: int,
    output_tokens: int,
    shared_tokens: int,
    ttft_s: float,
    slo_tpot_ms: float,
    error_share: float,
    first: int,
    most: int,
    level_s: float,
    seed: int | None,
) -> Measuring:
    if first > most:
        raise click.UsageError(f"--start {first} is above --most {most}")
    if shared_tokens >= prompt_tokens:
        raise click.UsageError(
            f"--shared-prefix {shared_tokens} leaves nothing of --prompt-tokens {prompt_tokens}"
        )
    return Measuring(
        prompt_tokens=prompt_tokens,
        shared_tokens=shared_tokens,
        load=Load(
            output_tokens=output_tokens,
            level_s=level_s,
            request_s=max(_LONGEST_S, _AFTER_LEVEL * level_s),
        ),
        slo=Slo(ttft_p95_s=ttft_s, tpot_p95_s=slo_tpot_ms / 1000, error_share=error_share),
        ramp=Ramp(first=first, most=most),
        seed=randomness.randbits(_SEED_BITS) if seed is None else seed,
    )
