"""Remembers whose stream was refused or ended, and why, so that a person can ask here.

A node that cannot join tells its own log; who sets it up looks at the control plane first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.domain.views import RefusalView
from llmgw.errors import LlmgwError
from llmgw.kit.clock import Clock

LIMIT = 256
"""Nodes remembered; the one that was heard of longest ago is forgotten first."""


@dataclass(slots=True)
class Caller:
    """Who opened a stream, as far as it has come out."""

    peer: str
    common_name: str = ""
    node_id: str = ""

    @property
    def name(self) -> str:
        """It is remembered by what it says, else by what it proves, else by where it dials from."""
        return self.node_id or self.common_name or self.peer.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class _Noted:
    caller: Caller
    error: LlmgwError
    at: float
    count: int


class TurnedAway:
    """The last refusal of each caller; fits the admin API's port ``Refusals``."""

    def __init__(self, *, clock: Clock, limit: int = LIMIT) -> None:
        """``clock`` gives the ages that are shown."""
        self._clock = clock
        self._limit = limit
        self._noted: OrderedDict[str, _Noted] = OrderedDict()

    def note(self, caller: Caller, error: LlmgwError) -> None:
        """A stream was refused, or ended for a reason."""
        before = self._noted.pop(caller.name, None)
        count = 1 if before is None else before.count + 1
        self._noted[caller.name] = _Noted(caller, error, self._clock.monotonic(), count)
        while len(self._noted) > self._limit:
            self._noted.popitem(last=False)

    def refusals(self) -> Sequence[RefusalView]:
        """One for each caller, the newest first."""
        now = self._clock.monotonic()
        return [
            RefusalView(
                node_id=noted.caller.node_id,
                common_name=noted.caller.common_name,
                peer=noted.caller.peer,
                code=noted.error.code,
                message=noted.error.message,
                ago_s=now - noted.at,
                count=noted.count,
            )
            for noted in reversed(self._noted.values())
        ]
