"""``llmgw ctl cordon``, ``drain`` and ``uncordon``: an operator's word on a node."""

from __future__ import annotations

import time

import click

from llmgw.cli import completing, figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.client import Answer
from llmgw.cli.params import DURATION
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.views import NodeView
from llmgw.errors import Conflict, DeadlinePassed, Unreachable
from llmgw.kit import units

_POLL_S = 1.0

_node = click.argument("node", shell_complete=completing.nodes)
_reason = click.option("--reason", default="", help="Shown to everybody who looks at the node.")


@click.command()
@_node
@_reason
@asks
def cordon(asking: Asking, *, node: str, reason: str) -> None:
    """Keep new replicas away from NODE; what runs there stays.

    \b
    llmgw ctl cordon gpu01 --reason "new cards"
    """  # noqa: D301 - click reads \b
    _say(asking, _set(asking, node, target=NodeTarget.CORDONED, reason=reason))


@click.command()
@_node
@_reason
@asks
def uncordon(asking: Asking, *, node: str, reason: str) -> None:
    """Let NODE take replicas again; moves that have ended nothing yet are called off.

    \b
    llmgw ctl uncordon gpu01
    """  # noqa: D301 - click reads \b
    _say(asking, _set(asking, node, target=NodeTarget.READY, reason=reason))


@click.command()
@_node
@_reason
@click.option("--wait", "is_waited_for", is_flag=True, help="Until NODE holds no replica.")
@click.option("--timeout", "timeout_s", type=DURATION, default="30m", show_default=True)
@asks
def drain(asking: Asking, *, node: str, reason: str, is_waited_for: bool, timeout_s: float) -> None:
    """Move all replicas of NODE to others, of each model a few at a time.

    A replica serves until another one does in its stead, and goes after a while even without.

    \b
    llmgw ctl drain gpu01 --reason "new cards" --wait
    """  # noqa: D301 - click reads \b
    answer = _set(asking, node, target=NodeTarget.DRAINING, reason=reason)
    if is_waited_for:
        answer = _emptied(asking, answer, timeout_s=timeout_s)
    _say(asking, answer)


def _set(asking: Asking, node: str, *, target: NodeTarget, reason: str) -> Answer[NodeView]:
    return asking.client.set_node_state(node, target=target, reason=reason)


def _emptied(asking: Asking, answer: Answer[NodeView], *, timeout_s: float) -> Answer[NodeView]:
    node_id, give_up_at = answer.value.node_id, time.monotonic() + timeout_s
    shown: tuple[str, ...] | None = None
    while held := _held(answer.value):
        _check_still_drains(answer.value)
        if held != shown:
            click.echo(f"{node_id} still holds {', '.join(held)}", err=True)
            shown = held
        if time.monotonic() > give_up_at:
            raise DeadlinePassed(
                f"{node_id} still holds {', '.join(held)} after {units.shown_seconds(timeout_s)} "
                f"and goes on draining; 'llmgw ctl replicas --node {node_id}' says what each "
                "waits for"
            )
        time.sleep(_POLL_S)
        answer = _look(asking, answer)
    return answer


def _look(asking: Asking, last: Answer[NodeView]) -> Answer[NodeView]:
    """The node as it is now; as it was while a control plane restarts."""
    try:
        return asking.client.node(last.value.node_id)
    except Unreachable as error:
        click.echo(error.message, err=True)
        return last


def _check_still_drains(node: NodeView) -> None:
    """An operator may have lifted the flag; a control plane without a store forgets it."""
    if node.state in {NodeTarget.READY, NodeTarget.CORDONED}:
        raise Conflict(
            f"{node.node_id} does not drain any more, it is {node.state}; drain it again"
        )


def _held(node: NodeView) -> tuple[str, ...]:
    return (*node.replica_ids, *node.stray_shard_ids)


def _say(asking: Asking, answer: Answer[NodeView]) -> None:
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    node = answer.value
    why = f": {node.flag_reason}" if node.flag_reason else ""
    asking.screen.line(f"{node.node_id} is {node.state}{why}")
    asking.screen.line(f"it holds {figures.listed(_held(node))}")
