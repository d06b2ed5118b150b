"""``llmgw worker``: one gateway worker; ``llmgw server`` starts it with what it needs."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from llmgw.kit import logs, openfiles
from llmgw.serve import gateways, loops
from llmgw.serve.gateway_worker import CarriesRequests, Ties, Worker
from llmgw.serve.messages import Configure


@click.command(hidden=True)
@click.option("--listener-fd", type=int, required=True, help="The listening socket.")
@click.option("--link-fd", type=int, required=True, help="This end of the link to the server.")
@click.option("--run-dir", type=click.Path(path_type=Path), required=True)
def worker(*, listener_fd: int, link_fd: int, run_dir: Path) -> None:
    """Serve on an inherited socket what the server says.

    \b
    llmgw worker --listener-fd 5 --link-fd 6 --run-dir /run/llmgw
    """  # noqa: D301 - click reads \b
    logs.setup()
    openfiles.take_all()
    listener, link = socket.socket(fileno=listener_fd), socket.socket(fileno=link_fd)
    loops.run(Worker(listener=listener, run_dir=run_dir, make_gateway=_make).run(link))


def _make(configured: Configure, ties: Ties) -> CarriesRequests:
    return gateways.of_worker(configured, ties)
