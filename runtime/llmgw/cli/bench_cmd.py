"""``llmgw bench``: how many requests at once an OpenAI endpoint carries."""

from __future__ import annotations

import asyncio
import secrets as randomness
from urllib.parse import urlsplit

import click

from llmgw.bench.driver import Driver, Load, Target
from llmgw.bench.prompts import prompts
from llmgw.bench.ramp import Ramp
from llmgw.bench.run import Outcome, run
from llmgw.bench.slo import Slo
from llmgw.cli import bench_showing, screens
from llmgw.cli.bench_progress import BenchProgress
from llmgw.cli.failures import ExitCode
from llmgw.cli.params import DURATION
from llmgw.config import secrets, sources

_AFTER_LEVEL = 10
_LONGEST_S = 60.0
"""A request may take ten times the length of its level, or a minute if that is more."""

_SEED_BITS = 32


@click.command()
@click.argument("url")
@click.option("--model", required=True, help="The model that is asked.")
@click.option(
    "--api-key",
    "key",
    default="",
    metavar="REFERENCE",
    help="Where the key lies: @/path/to/file or ${NAME}.",
)
@click.option("--prompt-tokens", type=click.IntRange(1), default=256, show_default=True)
@click.option("--output-tokens", type=click.IntRange(2), default=128, show_default=True)
@click.option(
    "--shared-prefix",
    "shared_tokens",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="TOKENS",
    help="How much of all prompts is the same; without it no cache helps.",
)
@click.option("--slo-ttft", "ttft_s", type=DURATION, default="2s", show_default=True)
@click.option("--slo-tpot-ms", type=click.FloatRange(min=0.0), default=100.0, show_default=True)
@click.option(
    "--slo-errors",
    "error_share",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="Share of requests that may fail.",
)
@click.option("--start", "first", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="Highest number of requests at once that is tried.",
)
@click.option(
    "--level-time",
    "level_s",
    type=DURATION,
    default="15s",
    show_default=True,
    help="How long each level is driven.",
)
@click.option(
    "--metrics",
    "metrics_url",
    default="",
    metavar="URL",
    help="The engine's own /metrics, for waiting requests and KV cache under load.",
)
@click.option("--seed", type=int, help="Makes the prompts those of an earlier run.")
@click.option("--json", "is_json", is_flag=True, help="One JSON document instead of a table.")
@click.pass_context
def bench(
    ctx: click.Context,
    /,
    *,
    url: str,
    model: str,
    key: str,
    prompt_tokens: int,
    output_tokens: int,
    shared_tokens: int,
    ttft_s: float,
    slo_tpot_ms: float,
    error_share: float,
    first: int,
    most: int,
    level_s: float,
    metrics_url: str,
    seed: int | None,
    is_json: bool,
) -> None:
    """Raise the load on the OpenAI endpoint at URL until it breaks the promises.

    URL is what an OpenAI client takes as its base, such as http://127.0.0.1:8080/v1. Every request
    is a streamed chat with a prompt of its own. The promises are percentiles 95 of the time to the
    first token (TTFT) and of the time per further token (TPOT), and the share of failed requests.
    Ends with 7 when even the first level breaks them.
    """
    if first > most:
        raise click.UsageError(f"--start {first} is above --most {most}")
    if shared_tokens >= prompt_tokens:
        raise click.UsageError(
            f"--shared-prefix {shared_tokens} leaves nothing of --prompt-tokens {prompt_tokens}"
        )
    drawn = randomness.randbits(_SEED_BITS) if seed is None else seed
    driver = Driver(
        Target(
            url=_base(url),
            model=model,
            api_key=secrets.resolve(key, environ=sources.environment()),
            metrics_url=metrics_url,
        ),
        Load(
            output_tokens=output_tokens,
            level_s=level_s,
            request_s=max(_LONGEST_S, _AFTER_LEVEL * level_s),
        ),
        prompts=prompts(tokens=prompt_tokens, shared_tokens=shared_tokens, seed=drawn),
    )
    slo = Slo(ttft_p95_s=ttft_s, tpot_p95_s=slo_tpot_ms / 1000, error_share=error_share)
    outcome = asyncio.run(_measured(driver, Ramp(first=first, most=most), slo))
    screen = screens.standard()
    if is_json:
        screen.document(bench_showing.document(outcome))
    else:
        bench_showing.summary(screen, outcome)
    if outcome.best is None:
        ctx.exit(ExitCode.CHECK_SAID_NO)


async def _measured(driver: Driver, ramp: Ramp, slo: Slo) -> Outcome:
    async with driver:
        await driver.check()
        with BenchProgress.shown() as progress:
            return await run(
                driver, ramp=ramp, slo=slo, on_begin=progress.begin, on_level=progress.level
            )


def _base(url: str) -> str:
    """The base without its last slash; refuses what no client could take."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(f"{url!r} is no address: write http://HOST:PORT/v1")
    return url.rstrip("/").removesuffix("/chat/completions")
