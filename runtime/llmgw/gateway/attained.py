"""Remember how much service each project got lately, so that the one with least goes first; pure.

``admission`` charges what requests cost and compares projects when their requests wait.  Old
service fades: a project that was busy an hour ago has no debt.
"""

from __future__ import annotations

import math

_FADES_IN_S = 300.0
"""After so long a third of it still counts."""

_NOTHING_TOKENS = 1.0
_MANY = 1024


class Attained:
    """Tokens by project, fading; as many projects as were busy lately."""

    __slots__ = ("_many", "_tokens")

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}
        self._many = _MANY

    def __len__(self) -> int:
        return len(self._tokens)

    def of(self, project: str, now: float) -> float:
        """What is left of what it got."""
        tokens, at = self._tokens.get(project, (0.0, now))
        return tokens * math.exp((at - now) / _FADES_IN_S) if tokens else 0.0

    def charge(self, project: str, tokens: float, now: float) -> None:
        """It got so much more."""
        self._tokens[project] = (self.of(project, now) + tokens, now)
        if len(self._tokens) > self._many:
            self._forget_faded(now)

    def _forget_faded(self, now: float) -> None:
        left = {project for project in self._tokens if self.of(project, now) >= _NOTHING_TOKENS}
        self._tokens = {project: self._tokens[project] for project in left}
        self._many = max(_MANY, 2 * len(left))
