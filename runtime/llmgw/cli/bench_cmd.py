"""``llmgw bench``: how many requests at once an OpenAI endpoint carries."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from llmgw.bench.driver import Target
from llmgw.cli import bench_options, bench_showing, screens
from llmgw.cli.bench_options import Measuring
from llmgw.cli.failures import ExitCode
from llmgw.config import secrets, sources


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
@bench_options.measuring
@click.option(
    "--metrics",
    "metrics_url",
    default="",
    metavar="URL",
    help="The engine's own /metrics, for waiting requests and KV cache under load.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document instead of a table.")
@click.pass_context
def bench(
    ctx: click.Context,
    /,
    *,
    url: str,
    model: str,
    key: str,
    measuring: Measuring,
    metrics_url: str,
    is_json: bool,
) -> None:
    """Raise the load on the OpenAI endpoint at URL until it breaks the promises.

    URL is what an OpenAI client takes as its base, such as http://127.0.0.1:8080/v1. Every request
    is a streamed chat with a prompt of its own. The promises are percentiles 95 of the time to the
    first token (TTFT) and of the time per further token (TPOT), and the share of failed requests.
    Ends with 7 when even the first level breaks them.

    \b
    llmgw bench http://127.0.0.1:8080/v1 --model llama
    llmgw bench http://gpu01:20000/v1 --model llama --slo-ttft 1s --most 64
    """  # noqa: D301 - click reads \b
    target = Target(
        url=_base(url),
        model=model,
        api_key=secrets.resolve(key, environ=sources.environment()),
        metrics_url=metrics_url,
    )
    outcome = measuring.measure(target)
    screen = screens.standard()
    if is_json:
        screen.document(bench_showing.document(outcome))
    else:
        bench_showing.summary(screen, outcome)
    if outcome.best is None:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _base(url: str) -> str:
    """The base without its last slash; refuses what no client could take."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(f"{url!r} is no address: write http://HOST:PORT/v1")
    return url.rstrip("/").removesuffix("/chat/completions")
