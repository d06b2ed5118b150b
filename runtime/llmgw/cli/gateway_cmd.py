"""``llmgw gateway``: a gateway on a host of its own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import click

from llmgw.cli import settings_files
from llmgw.config import loading, sources
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.kit import logs
from llmgw.serve import gateway_apart, loops, open_files, run_folder


@click.group(invoke_without_command=True)
@settings_files.option(settings_files.GATEWAY, whose="The gateway's")
@click.option("--server", help="Agent port of the control plane, host:7443.")
@click.option("--name", help="The gateway's name.")
@click.option("--listen", help="Where clients connect, such as :8080.")
@click.option("--admin-listen", help="Where the probes and metrics are, such as 127.0.0.1:9090.")
@click.pass_context
def gateway(
    ctx: click.Context,
    *,
    config: Path | None,
    server: str | None,
    name: str | None,
    listen: str | None,
    admin_listen: str | None,
) -> None:
    """Serve what a control plane elsewhere says, and serve on when it is gone.

    Every setting can be given by environment too: LLMGW_SERVER, LLMGW_GATEWAY__WORKERS, ...
    Ends by SIGTERM, once the requests under way have ended.

    \b
    llmgw gateway --config /etc/llmgw/gateway.yaml
    llmgw gateway --server http://127.0.0.1:7443 --listen 127.0.0.1:8081
    """  # noqa: D301 - click reads \b
    environ = sources.environment()
    file = settings_files.chosen(config, usual=settings_files.GATEWAY)
    written = {"server": server, "name": name, "listen": listen, "admin_listen": admin_listen}
    given = {key: value for key, value in written.items() if value is not None}
    load = functools.partial(loading.load_gateway, file, environ=environ, overrides=given)
    if ctx.invoked_subcommand is not None:
        ctx.obj = load  # not read yet: the help of a command below needs no settings
        return
    settings = _loaded(load)
    open_files.take(
        models=0, endpoints=0, admission=settings.admission, on_demand=settings.on_demand
    )
    gateway_ = gateway_apart.GatewayApart(settings, environ=environ, announce=_announce)
    loops.run(gateway_.run())


@gateway.command()
@click.option(
    "--service-result",
    envvar="SERVICE_RESULT",
    default="success",
    help="How the service ended, as systemd says it; only after a success workers are ended.",
)
@click.pass_obj
def reap(load: Callable[[], GatewayHostSettings], *, service_result: str) -> None:
    """End the workers that a killed gateway left behind.

    They serve on without it, so that the next one can take them over. For the ExecStopPost of a
    systemd unit.

    \b
    llmgw gateway --config /etc/llmgw/gateway.yaml reap
    llmgw gateway reap
    """  # noqa: D301 - click reads \b
    if service_result != "success":
        click.echo(f"the gateway ended by {service_result}: its workers serve on for the next one")
        return
    settings = _loaded(load)
    count = loops.run(run_folder.reap(Path(settings.run_dir), stopping=settings.gateway))
    click.echo(f"ended {count} worker(s)")


def _loaded(load: Callable[[], GatewayHostSettings]) -> GatewayHostSettings:
    settings = load()
    logs.setup(level=settings.log.level, as_json=settings.log.format == "json")
    return settings


def _announce(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk under a log file stops no gateway
        click.echo(line)
