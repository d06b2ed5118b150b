"""How requests get in to a gateway, and its place among the workers of its host.

``serve`` makes these for ``server``; what is absent is off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.house import House
from llmgw.gateway.ports import KeyLookup, LimitGate, LoadRequests, Siblings, UsageSink
from llmgw.kit.metrics import Sample


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place among those of its host: its board, and whether it scrapes for all now.

    Without ``siblings`` it is alone.
    """

    board: LoadBoard
    is_publisher: Callable[[], bool] = lambda: True
    siblings: Siblings | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Whose keys let requests in, and what is held and charged for them.

    ``look`` is called a few times a second, ``start`` before the first request and ``close`` after
    the last one.
    """

    keys: KeyLookup
    gate: LimitGate
    sink: UsageSink
    look: Callable[[], None]
    start: Callable[[], None]
    close: Callable[[], Awaitable[None]]
    default_tokens: int = 1024
    figures: Callable[[], tuple[Sample, ...]] = tuple


@dataclass(frozen=True, slots=True)
class Doors:
    """How requests get in; without ``load_requests`` no model is loaded because it is asked for.

    Without ``most_files`` as many may come as the system lets this process have open; without
    ``access`` nobody is asked for a key; without ``house`` nobody here answers for people.
    """

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    on_demand: OnDemandSettings = field(default_factory=OnDemandSettings)
    load_requests: LoadRequests | None = None
    most_files: int = 0
    access: Access | None = None
    house: House | None = None
