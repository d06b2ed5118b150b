"""``llmgw replay``: decide recorded passes of a control plane once more, and compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from llmgw.cli import screens
from llmgw.cli.failures import ExitCode
from llmgw.cli.params import MOMENT
from llmgw.cli.screens import Column, Row, Screen
from llmgw.control.recorder import journal, replaying
from llmgw.control.recorder.recordings import Recording
from llmgw.control.recorder.replaying import Replay
from llmgw.errors import Unknown

_COLUMNS = (Column("ACTION", is_whole=True), Column("ON", is_whole=True), Column("REASON"))
_MOST_SHOWN = 10


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--at",
    type=MOMENT,
    metavar="TIME",
    help="Only the last pass that had begun by then, with what it did. "
    "As 2026-11-30T09:12:04, in UTC unless it ends in an offset, or seconds since 1970.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def replay(ctx: click.Context, /, *, file: Path, at: float | None, is_json: bool) -> None:
    """Decide the passes in FILE once more, and compare with what was decided then.

    FILE is a journal of a server (the folder 'journal' in its state_dir, or one file of it) or what
    'llmgw ctl support-bundle' wrote. Nothing is sent anywhere. Ends with 7 when a pass is decided
    otherwise: then this version differs from that one.

    \b
    llmgw replay /var/lib/llmgw/journal
    llmgw replay llmgw-support.tar.gz --at 2026-11-30T09:12:04
    """  # noqa: D301 - click reads \b
    found = _chosen(file, at=at)
    screen = screens.standard()
    if at is None:
        differing = _whole(screen, found, file=file, is_json=is_json)
    else:
        one = replaying.replay(next(found))
        _show_one(screen, one, is_json=is_json)
        differing = 0 if one.is_same else 1
    if differing:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _chosen(file: Path, *, at: float | None) -> Iterator[Recording]:
    found = journal.read(file)
    if at is None:
        return found
    one = replaying.at_or_before(found, at)
    if one is None:
        first = next(journal.read(file), None)
        begins = "it holds no pass" if first is None else f"its first pass is of {_time(first.at)}"
        raise Unknown(f"{file} has no pass that began by {_time(at)}: {begins}")
    return iter([one])


def _whole(screen: Screen, found: Iterator[Recording], *, file: Path, is_json: bool) -> int:
    """Replay all; how many differ."""
    passes = actions = 0
    first_at = last_at = None
    differing: list[Replay] = []
    for recording in found:
        one = replaying.replay(recording)
        passes += 1
        actions += len(one.then["actions"])
        first_at, last_at = first_at or one.at, one.at
        if not one.is_same:
            differing.append(one)
    if not passes:
        raise Unknown(f"{file} holds no pass; a server writes one every control.interval")
    if is_json:
        screen.document(
            {
                "passes": passes,
                "actions": actions,
                "first_at": first_at,
                "last_at": last_at,
                "is_same": not differing,
                "differing": [_document(one) for one in differing],
            }
        )
        return len(differing)
    screen.facts(
        [
            ("PASSES", f"{passes}, from {_time(first_at)} to {_time(last_at)}"),
            ("ACTIONS", str(actions)),
            ("RESULT", f"{len(differing)} passes differ" if differing else "identical"),
        ]
    )
    for one in differing[:_MOST_SHOWN]:
        screen.line()
        _show_differences(screen, one)
    return len(differing)


def _show_one(screen: Screen, one: Replay, *, is_json: bool) -> None:
    if is_json:
        screen.document(_document(one))
        return
    screen.facts(
        [
            ("PASS", f"{one.number} at {_time(one.at)}"),
            ("RESULT", "identical" if one.is_same else "differs"),
        ]
    )
    screen.line()
    screen.table(_COLUMNS, _rows(one.then["actions"]))
    for model, reason in one.then["refusals"].items():
        screen.line(f"{model} is not placed: {reason}")
    if not one.is_same:
        screen.line()
        _show_differences(screen, one)


def _rows(actions: Sequence[Any]) -> list[Row]:
    return [
        Row((action["kind"], replaying.subject(action), action.get("reason", "")))
        for action in actions
    ]


def _show_differences(screen: Screen, one: Replay) -> None:
    screen.line(f"pass {one.number} at {_time(one.at)}:")
    for text in one.differences():
        screen.line(f"  {text}")


def _document(one: Replay) -> dict[str, Any]:
    return {
        "pass": one.number,
        "at": one.at,
        "is_same": one.is_same,
        "then": one.then,
        "now": one.now,
    }


def _time(at: float | None) -> str:
    if at is None:
        return screens.UNKNOWN
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
