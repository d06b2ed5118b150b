"""``llmgw server``: the control plane and the gateway, or the gateway alone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import click

from llmgw.cli import settings_files
from llmgw.cli.lazy import LazyCommand, LazyGroup
from llmgw.config import loading, sources
from llmgw.config.settings import ServerSettings
from llmgw.errors import Invalid
from llmgw.kit import logs
from llmgw.serve import loops, open_files
from llmgw.serve import server as servers

_INIT = LazyCommand(
    module="llmgw.cli.server_init_cmd",
    attribute="init",
    help="Make this machine a control plane: user, folders, certificates, settings, service.",
    extras="server",
)


@click.group(cls=LazyGroup, table={"init": _INIT}, invoke_without_command=True)
@settings_files.option(settings_files.SERVER, whose="The server's")
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="ID=URL=MODEL",
    help="Route to a server that runs already; repeat it, with the same ID for more models. "
    "Replaces the endpoints of the settings.",
)
@click.option("--listen", help="Where clients connect, such as :8080.")
@click.option("--admin-listen", help="Where the admin API listens, such as 127.0.0.1:9090.")
@click.pass_context
def server(
    ctx: click.Context,
    *,
    config: Path | None,
    endpoints: tuple[str, ...],
    listen: str | None,
    admin_listen: str | None,
) -> None:
    """Serve models of a fleet, or of endpoints that run already.

    Every setting can be given by environment too: LLMGW_LISTEN, LLMGW_GATEWAY__WORKERS, ...
    Ends by SIGTERM; engines go on.

    \b
    llmgw server --config /etc/llmgw/server.yaml
    llmgw server --endpoint gpu01=http://10.0.0.11:8000/v1=llama
    """  # noqa: D301 - click reads \b
    if ctx.invoked_subcommand == "init":
        return  # it makes the settings
    environ = sources.environment()
    file = settings_files.chosen(config, usual=settings_files.SERVER)
    overrides = {
        "listen": listen,
        "admin_listen": admin_listen,
        "endpoints": named_endpoints(endpoints) or None,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    settings = loading.load_server(file, environ=environ, overrides=given)
    logs.setup(level=settings.log.level, as_json=settings.log.format == "json")
    if ctx.invoked_subcommand is not None:
        ctx.obj = settings
        return
    open_files.take(
        models=len({*(one.name for one in settings.models), *_routed(settings)}),
        endpoints=len(settings.endpoints),
        admission=settings.admission,
        on_demand=settings.on_demand,
    )
    loops.run(servers.Server(settings, environ=environ, announce=_announce).run())


@server.command()
@click.option(
    "--service-result",
    envvar="SERVICE_RESULT",
    default="success",
    help="How the service ended, as systemd says it; only after a success workers are ended.",
)
@click.pass_obj
def reap(settings: ServerSettings, *, service_result: str) -> None:
    """End the gateway workers that a killed server left behind.

    They serve on without a server, so that the next one can take them over. For the ExecStopPost
    of a systemd unit.

    \b
    llmgw server reap
    """  # noqa: D301 - click reads \b
    if service_result != "success":
        click.echo(f"the server ended by {service_result}: its workers serve on for the next one")
        return
    count = loops.run(servers.reap(settings))
    click.echo(f"ended {count} worker(s)")


def named_endpoints(written: tuple[str, ...]) -> list[Mapping[str, object]]:
    """``ID=URL=MODEL`` each, split at the first and the last ``=``; one entry for each ID."""
    found: dict[str, tuple[str, list[str]]] = {}
    for text in written:
        name, _, rest = text.partition("=")
        url, _, model = rest.rpartition("=")
        if not (name and url and model):
            raise Invalid(
                f"--endpoint {text!r}: write ID=URL=MODEL, as in a=http://10.0.0.5:8000=m"
            )
        known_url, models = found.setdefault(name, (url, []))
        if known_url != url:
            raise Invalid(f"--endpoint {text!r}: {name} has the address {known_url} already")
        models.append(model)
    return [{"id": name, "url": url, "models": models} for name, (url, models) in found.items()]


def _routed(settings: ServerSettings) -> set[str]:
    """The models of endpoints that run already."""
    return {model for endpoint in settings.endpoints for model in endpoint.models}


def _announce(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk under a log file stops no server
        click.echo(line)
