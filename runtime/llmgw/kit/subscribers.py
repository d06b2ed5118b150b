"""Who is told when something changes, until they no longer want to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

_CallbackT = TypeVar("_CallbackT", bound=Callable[..., Any])


class Subscribers(Generic[_CallbackT]):
    """Callbacks in the order in which they came; iterate to call them.

    One that comes or leaves meanwhile changes nothing of a round that has begun.
    """

    def __init__(self) -> None:
        """Begin with nobody."""
        self._callbacks: list[_CallbackT] = []

    def add(self, callback: _CallbackT) -> Callable[[], None]:
        """Tell one more, until what is returned is called; calling that again does nothing."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def __iter__(self) -> Iterator[_CallbackT]:
        """Everybody who is to be told now."""
        return iter(tuple(self._callbacks))
