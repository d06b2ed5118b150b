"""``llmgw ctl forget``, ``ban`` and ``unban``: which nodes are known, and which are let in."""

from __future__ import annotations

from urllib.parse import quote

import click
from pydantic import TypeAdapter

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.domain.views import NodeView

_node = click.argument("node", shell_complete=completing.nodes)


@click.command()
@_node
@asks
def forget(asking: Asking, *, node: str) -> None:
    """Forget NODE, which is gone for good, and what was said of it.

    One that is connected or still holds replicas is refused. It comes back when its agent starts;
    'llmgw ctl ban' prevents that.

    \b
    llmgw ctl forget gpu01
    """  # noqa: D301 - click reads \b
    asking.client.send("DELETE", f"nodes/{quote(node, safe='')}")
    if asking.is_json:
        asking.screen.document({"node_id": node, "is_known": False})
        return
    asking.screen.line(f"{node} is forgotten")


@click.command()
@_node
@asks
def ban(asking: Asking, *, node: str) -> None:
    """End the stream of NODE and let its agent in no more, whatever certificate it shows.

    Its replicas are replaced on other nodes once it counts as lost; engines go on until then.
    Drain it before where it still serves.

    \b
    llmgw ctl ban gpu01
    """  # noqa: D301 - click reads \b
    _ban(asking, node, is_banned=True)


@click.command()
@_node
@asks
def unban(asking: Asking, *, node: str) -> None:
    """Let the agent of NODE in again.

    \b
    llmgw ctl unban gpu01
    """  # noqa: D301 - click reads \b
    _ban(asking, node, is_banned=False)


def _ban(asking: Asking, node: str, *, is_banned: bool) -> None:
    body = {"is_banned": is_banned}
    document = asking.client.send("POST", f"nodes/{quote(node, safe='')}/ban", body=body)
    view = asking.client.read(document, TypeAdapter(NodeView))
    if asking.is_json:
        asking.screen.document(document)
        return
    word = "is banned: its agent is not let in" if view.is_banned else "is let in again"
    asking.screen.line(f"{view.node_id} {word}")
