"""Shows an answer again and again until Ctrl-C: drawn anew on a terminal, else written out.

While nobody answers the last answer stays, with the reason under it.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from llmgw.cli.asking import Asking
from llmgw.cli.client import Answer
from llmgw.cli.params import Duration
from llmgw.cli.screens import Screen
from llmgw.errors import DeadlinePassed, Unavailable

_T = TypeVar("_T")
_SHORTEST_S = 0.2

option = click.option(
    "--watch",
    "watch_s",
    type=Duration(at_least_s=_SHORTEST_S),
    is_flag=False,
    flag_value="2s",
    metavar="[TIME]",
    help="Show it again so often, every 2s without a TIME; Ctrl-C ends it.",
)
"""``--watch`` of a command that shows one answer."""


def show(
    asking: Asking,
    *,
    ask: Callable[[], Answer[_T]],
    draw: Callable[[Screen, _T], None],
    watch_s: float | None,
) -> None:
    """Show the answer, once or until Ctrl-C; as JSON one document an answer."""
    if watch_s is None:
        answer = ask()
        if asking.is_json:
            asking.screen.document(answer.document)
        else:
            draw(asking.screen, answer.value)
        return
    watch = _Watch(asking, ask=ask, draw=draw)
    try:
        watch.run(watch_s)
    except KeyboardInterrupt:
        return  # that is how it ends


class _Watch(Generic[_T]):
    def __init__(
        self,
        asking: Asking,
        *,
        ask: Callable[[], Answer[_T]],
        draw: Callable[[Screen, _T], None],
    ) -> None:
        self._asking = asking
        self._ask = ask
        self._draw = draw
        self._last: Answer[_T] | None = None

    def run(self, watch_s: float) -> None:
        screen = self._asking.screen
        if self._asking.is_json or not screen.is_terminal:
            while True:
                self._write()
                time.sleep(watch_s)
        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(self._page(width=screen.width), refresh=True)
                time.sleep(watch_s)

    def _look(self) -> str:
        """Ask once more; why there is no new answer, if so."""
        try:
            self._last = self._ask()
        except (Unavailable, DeadlinePassed) as error:
            return error.message
        return ""

    def _write(self) -> None:
        problem = self._look()
        if problem:
            click.echo(f"llmgw: {problem}", err=True)
        elif self._asking.is_json:
            self._line(json.dumps(self._document(), ensure_ascii=False))
        else:
            self._line(f"at {time.strftime('%H:%M:%S')}")
            self._drawn(self._asking.screen)
            self._line("")

    def _page(self, *, width: int) -> Text:
        """The answer as a terminal of this width shows it."""
        problem, buffer = self._look(), io.StringIO()
        screen = Screen(
            stream=buffer,
            width=width,
            has_headers=self._asking.screen.has_headers,
            is_terminal=True,
        )
        self._drawn(screen)
        screen.line()
        screen.line(problem or f"{time.strftime('%H:%M:%S')}, Ctrl-C ends it", style="dim")
        return Text.from_ansi(buffer.getvalue())

    def _drawn(self, screen: Screen) -> None:
        if self._last is not None:
            self._draw(screen, self._last.value)

    def _document(self) -> Any:
        return None if self._last is None else self._last.document

    def _line(self, text: str) -> None:
        """Written at once: who reads along should not wait for a full buffer."""
        click.echo(text)
        sys.stdout.flush()
