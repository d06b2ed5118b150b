"""``llmgw up``: everything on this machine, its progress, and what to type next."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.handlers
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import httpx

from llmgw.cli import plain
from llmgw.cli.load_progress import LoadProgress
from llmgw.config import sources
from llmgw.config.settings import LogSettings
from llmgw.domain.views import ModelStatus
from llmgw.errors import Unavailable
from llmgw.kit import logs
from llmgw.serve import embedded, loops, open_files
from llmgw.serve.allinone import AllInOne, Where
from llmgw.serve.awaiting import Awaiting, Look
from llmgw.serve.embedded import UpSettings, Wishes
from llmgw.serve.signals import StopAsked

_LOOK_EVERY_S = 0.1
_ANSWER_S = 600.0
_ANSWER_TOKENS = 256
_LOG_BYTES = 1024 * 1024
_MANNER = "Answer briefly and in English."
"""Without it a small model rambles, and changes its language."""


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=".llmgw",
    show_default=True,
    help="Folder for everything: models, state, engines' output.",
)
@click.option("--model", help="Model file to serve: a path, a URL or hf:org/repo/file.gguf.")
@click.option("--name", help="What clients call the model of --model.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings of a server, with its models."
)
@click.option(
    "--listen", help=f"Where clients connect.  [default: {embedded.LISTEN}; any port with --once]"
)
@click.option(
    "--admin-listen",
    help=f"Where the admin API listens.  [default: {embedded.ADMIN_LISTEN}; any port with --once]",
)
@click.option("--once", "question", metavar="QUESTION", help="Ask, print the answer, stop.")
@click.option("--verbose", is_flag=True, help="Show the log here, not in up.log of --data.")
def up(
    *,
    data: Path,
    model: str | None,
    name: str | None,
    config: Path | None,
    listen: str | None,
    admin_listen: str | None,
    question: str | None,
    verbose: bool,
) -> None:
    """Run a control plane, a gateway, an agent and a model here, until Ctrl-C.

    Without --model or --config it serves the GGUF files in the models folder of --data, and what
    was added with 'llmgw ctl model add'.
    Every setting of a server and of an agent can be given by environment too.

    \b
    llmgw up
    llmgw up --model hf:ggml-org/gemma-3-270m-it-GGUF/gemma-3-270m-it-Q8_0.gguf
    """  # noqa: D301 - click reads \b
    wishes = Wishes(
        data=data,
        config=config,
        model=model,
        name=name,
        listen=listen,
        admin_listen=admin_listen,
        is_once=question is not None,
    )
    environ = sources.environment()
    settings = embedded.load(wishes, environ=environ)
    _set_up_log(settings.server.log, file=None if verbose else data / "up.log")
    open_files.take(
        models=len(settings.server.models),
        endpoints=len(settings.server.models),
        admission=settings.server.admission,
        on_demand=settings.server.on_demand,
    )
    is_done = loops.run(_run(settings, environ=environ, question=question))
    if question is not None and not is_done:
        raise click.Abort


def _set_up_log(log: LogSettings, *, file: Path | None) -> None:
    """Beside the progress only errors are shown: what the rest says, the progress says too."""
    as_json = log.format == "json"
    if file is None:
        logs.setup(level=log.level, as_json=as_json)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = logging.handlers.RotatingFileHandler(file, maxBytes=_LOG_BYTES, backupCount=1)
    logs.setup(level=log.level, as_json=as_json, handler=kept)
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.ERROR)
    logs.add_handler(shown)


async def _run(settings: UpSettings, *, environ: Mapping[str, str], question: str | None) -> bool:
    """Start everything, do what was asked, stop everything; false when a signal ended it."""
    stop = StopAsked()
    stop.listen()
    house = AllInOne(settings, environ=environ, stop=stop)
    where = await house.start()
    try:
        auth = settings.server.auth
        steps = partial(
            next_steps,
            where,
            llmgw=as_started(sys.argv[0], path=environ.get("PATH")),
            keys_store=auth.store if auth.enabled else None,
        )
        work = _serve(house, where=where, question=question, next_steps=steps)
        return await stop.unless_asked(work)
    finally:
        if stop.is_asked:
            click.echo(stopping(house.inflight), err=True)
        await house.close()
        if stop.is_asked:
            click.echo("stopped", err=True)


def stopping(inflight: int) -> str:
    """What is said to the first Ctrl-C."""
    if not inflight:
        return "stopping…"
    those = "1 request is" if inflight == 1 else f"{inflight} requests are"
    them = "it" if inflight == 1 else "them"
    return f"stopping… {those} still running; Ctrl-C again ends {them}"


def as_started(argv0: str, *, path: str | None) -> str:
    """What a person types to start this program again, in the folder where it was started."""
    started = Path(argv0)
    if started.name == "__main__.py":
        return f"{sys.executable} -m llmgw"
    return started.name if shutil.which(started.name, path=path) else str(started)


async def _serve(
    house: AllInOne, *, where: Where, question: str | None, next_steps: Callable[[str], str]
) -> None:
    """Tell of each model as soon as it serves, then go on for ever; or ask the first and end."""
    awaiting, told, retried = Awaiting(), set[str](), set[str]()
    is_over = False
    while not is_over:
        seen = await _until_news(house, awaiting, told=told, retried=retried)
        is_over = seen.is_over
        if question is not None and seen.serving:
            click.echo(await _ask(question, model=seen.serving[0], url=where.clients_url))
            return
        for name in [name for name in seen.serving if name not in told]:
            click.echo(f"{name} is served too" if told else next_steps(name))
            told.add(name)
    for failure in seen.failures:
        click.echo(failure, err=True)
    asleep = [m.name for m in house.models() if m.status is ModelStatus.ON_DEMAND]
    if question is not None:
        click.echo(await _ask(question, model=_first(asleep), url=where.clients_url))
        return
    if asleep and not told:
        click.echo(next_steps(asleep[0]))
    await asyncio.Event().wait()


def _first(asleep: Sequence[str]) -> str:
    """The model to ask where none is to run before somebody asks."""
    if not asleep:
        raise Unavailable("every model is off: 'llmgw ctl scale NAME --min 1' starts one")
    return asleep[0]


async def _until_news(
    house: AllInOne, awaiting: Awaiting, *, told: Collection[str], retried: set[str]
) -> Look:
    """Draw the progress until another model serves or no more is to come."""
    with LoadProgress.shown() as progress:
        while True:
            seen = awaiting.look(house.models(), serves=house.serves, now=time.monotonic())
            if seen.is_over or not set(seen.serving) <= set(told):
                return seen
            progress.show(house.replicas())
            for model in house.models():
                if model.status is ModelStatus.BACKOFF and model.name not in retried:
                    retried.add(model.name)
                    progress.note(f"{model.name} did not start; trying once more")
            await asyncio.sleep(_LOOK_EVERY_S)


async def _ask(question: str, *, model: str, url: str) -> str:
    """The answer of the gateway, asked as any client asks it."""
    body = {
        "model": model,
        "messages": [
            {"role": "system", "content": _MANNER},
            {"role": "user", "content": question},
        ],
        "max_tokens": _ANSWER_TOKENS,
        "temperature": 0,
    }
    async with httpx.AsyncClient(trust_env=False, timeout=_ANSWER_S) as client:
        try:
            answer = await client.post(f"{url}/chat/completions", json=body)
        except httpx.TransportError as error:
            raise Unavailable(f"{url} did not answer: {error!r}") from error
    if answer.status_code != httpx.codes.OK:
        raise Unavailable(f"{model} did not answer: {answer.status_code} {answer.text[:500]}")
    content: str = answer.json()["choices"][0]["message"]["content"]
    return "\n".join(map(plain.one_line, content.strip().split("\n")))


def next_steps(where: Where, model: str, *, llmgw: str, keys_store: str | None) -> str:
    """What to type to ask the model; with ``keys_store`` a key of it is asked for."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello!"}]})
    key, by_key, known_as = "", "", "unused"
    if keys_store is not None:
        key = _key_steps(keys_store, llmgw=llmgw)
        by_key, known_as = ' -H "Authorization: Bearer $KEY"', "$KEY"
    python = (
        "from openai import OpenAI; "
        f"print(OpenAI(base_url='{where.clients_url}', api_key='{known_as}')"
        ".chat.completions.create("
        f"model='{model}', messages=[dict(role='user', content='Hello!')])"
        ".choices[0].message.content)"
    )
    is_usual = where.admin_url == f"http://{embedded.ADMIN_LISTEN}"
    ctl = llmgw if is_usual else f"LLMGW_CTL_URL={where.admin_url} {llmgw}"
    taken = f" (the port of {embedded.ADMIN_LISTEN} is taken)" if where.is_admin_elsewhere else ""
    return f"""
{model} is served at {where.clients_url}
{key}
  curl {where.clients_url}/chat/completions{by_key} -H 'Content-Type: application/json' \\
    -d '{body}'

  pip install openai
  python -c "{python}"

Look inside: {ctl} ctl status{taken}
Ctrl-C ends everything."""


def _key_steps(store: str, *, llmgw: str) -> str:
    there = f"--store {shlex.quote(store)}"
    return f"""
  {llmgw} keys init {there}
  {llmgw} keys create notebook {there}
  KEY=...  # what the line before has shown
"""
