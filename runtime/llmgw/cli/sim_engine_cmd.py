"""``llmgw sim-engine``: an engine that answers without a model."""

from __future__ import annotations

import click

from llmgw.kit import addresses, logs
from llmgw.simulator import behaviour, engine


@click.command(name="sim-engine")
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    metavar="HOST:PORT",
    show_default=True,
    help="Address of the OpenAI API; port 0 takes any free one.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Name of the model; repeat it for aliases.",
)
@click.option(
    "--ttft-ms", type=float, default=50.0, show_default=True, help="Time to the first token."
)
@click.option(
    "--tpot-ms", type=float, default=10.0, show_default=True, help="Time between two tokens."
)
@click.option(
    "--tokens",
    type=int,
    metavar="N",
    help="End answers after N tokens.  [default: the request's own bound, else 16]",
)
@click.option(
    "--load-s",
    type=float,
    default=0.0,
    show_default=True,
    help="Time during which /health answers 503.",
)
@click.option("--fail-start", is_flag=True, help="End with an error instead of becoming ready.")
@click.option(
    "--fail-rate",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of requests, 0 to 1, that are answered with an error.",
)
@click.option(
    "--fail-status", type=int, default=500, show_default=True, help="Status of such an answer."
)
@click.option("--exit-after", type=int, metavar="N", help="Crash after N answered requests.")
@click.option(
    "--context-length",
    type=int,
    default=8192,
    show_default=True,
    help="Tokens of prompt and answer that a request may have.",
)
@click.option(
    "--parallel",
    type=int,
    default=256,
    show_default=True,
    help="Requests that run at once; the others wait.",
)
@click.option(
    "--kv-tokens",
    type=int,
    default=131_072,
    show_default=True,
    help="Tokens that the pretended KV cache holds.",
)
@click.option("--api-key", metavar="KEY", help="Ask for this bearer token on /v1 routes.")
@click.option("--nnodes", type=int, default=1, show_default=True, help="Ranks of the replica.")
@click.option("--node-rank", type=int, default=0, show_default=True, help="Which rank this is.")
@click.option(
    "--dist-init-addr", metavar="HOST:PORT",
    help="Where rank 0 waits for the other ranks, and where these look for it.",
)  # fmt: skip
def sim_engine(
    *,
    listen: str,
    models: tuple[str, ...],
    ttft_ms: float,
    tpot_ms: float,
    tokens: int | None,
    load_s: float,
    fail_start: bool,
    fail_rate: float,
    fail_status: int,
    exit_after: int | None,
    context_length: int,
    parallel: int,
    kv_tokens: int,
    api_key: str | None,
    nnodes: int,
    node_rank: int,
    dist_init_addr: str | None,
) -> None:
    """Answer like an OpenAI-compatible engine, with Greek letters and at a set pace.

    Its metrics carry vLLM's names. While it runs, 'POST /sim' with a JSON object changes
    ttft_ms, tpot_ms, tokens, fail_rate, fail_status, hang, hang_health or cut_after_tokens.

    \b
    llmgw sim-engine --listen 127.0.0.1:8000 --model tiny
    """  # noqa: D301 - click reads \b
    logs.setup()
    engine.run(
        behaviour.EngineOptions(
            listen=addresses.parse(listen),
            models=models,
            behaviour=behaviour.Behaviour(
                ttft_ms=ttft_ms,
                tpot_ms=tpot_ms,
                tokens=tokens,
                fail_rate=fail_rate,
                fail_status=fail_status,
            ),
            load_s=load_s,
            fail_start=fail_start,
            exit_after=exit_after,
            context_length=context_length,
            parallel=parallel,
            kv_tokens=kv_tokens,
            api_key=api_key,
            nnodes=nnodes,
            node_rank=node_rank,
            dist_init=addresses.parse(dist_init_addr) if dist_init_addr else None,
        )
    )
