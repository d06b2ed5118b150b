"""``llmgw llama-server``: llama.cpp's HTTP server from the xllamacpp package."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.agent import llama_server as launcher
from llmgw.kit import logs
from llmgw.kit.addresses import Address


@click.command(name="llama-server")
@click.option(
    "-m", "--model", type=click.Path(path_type=Path), required=True, help="The GGUF file."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("-a", "--alias", help="Names of the model in the API, separated by commas.")
@click.option("--api-key", help="Keys that a client may show, separated by commas.")
@click.option(
    "-c",
    "--ctx-size",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Tokens of context, split over the slots; 0 means: as the model was trained.",
)
@click.option(
    "-np",
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Slots: requests that run at once.",
)
@click.option("-t", "--threads", type=int, default=-1, help="Threads; -1 means: one a core.")
@click.option(
    "-ngl", "--n-gpu-layers", "--gpu-layers", type=int, default=-1, help="Layers on the GPU."
)
@click.option("--metrics", is_flag=True, help="Serve /metrics.")
@click.option("--slots/--no-slots", default=True, show_default=True, help="Serve /slots.")
@click.option("--props", is_flag=True, help="Let POST /props change properties.")
@click.option(
    "--jinja/--no-jinja", default=True, show_default=True, help="Use the model's chat template."
)
@click.option("--embeddings", "--embedding", is_flag=True, help="Serve /v1/embeddings too.")
@click.option("--pooling", type=click.Choice(launcher.POOLINGS), help="How embeddings are made.")
def llama_server(
    *,
    model: Path,
    host: str,
    port: int,
    alias: str | None,
    api_key: str | None,
    ctx_size: int,
    parallel: int,
    threads: int,
    n_gpu_layers: int,
    metrics: bool,
    slots: bool,
    props: bool,
    jinja: bool,
    embeddings: bool,
    pooling: str | None,
) -> None:
    """Serve a GGUF model with llama.cpp, under the flags of its own llama-server.

    \b
    llmgw llama-server -m /models/tiny.gguf --port 8080
    """  # noqa: D301 - click reads \b
    logs.setup()
    launcher.run(
        launcher.LlamaServerOptions(
            model=model,
            listen=Address(host=host, port=port),
            aliases=_words(alias),
            api_keys=_words(api_key),
            ctx_size=ctx_size,
            parallel=parallel,
            threads=threads,
            n_gpu_layers=n_gpu_layers,
            has_metrics=metrics,
            has_slots=slots,
            has_props=props,
            has_jinja=jinja,
            has_embeddings=embeddings,
            pooling=pooling,
        )
    )


def _words(listed: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (listed or "").split(",") if word.strip())
