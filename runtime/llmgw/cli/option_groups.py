"""Options that belong together, handed to a command as one value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Command: TypeAlias = Callable[..., None]
Option: TypeAlias = Callable[[Command], Command]


def bundled(
    command: Command, options: Sequence[Option], *, name: str, make: Callable[..., object]
) -> Command:
    """The command with these options, whose values ``make`` turns into its argument ``name``.

    Each keyword of ``make`` is the value of the option of that name.
    """
    keys = make.__annotations__.keys() - {"return"}

    @functools.wraps(command)
    def wrapped(*args: Any, **given: Any) -> None:
        own = {key: given.pop(key) for key in keys}
        command(*args, **{name: make(**own)}, **given)

    decorated: Command = wrapped
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
