"""What the requests of a worker share on their way to an engine.

``server`` makes one, ``pipeline``, ``arrival`` and ``dispatch`` use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmgw.config.carrying import DispatchSettings
from llmgw.gateway.admission import Admission
from llmgw.gateway.affinity import Affinity
from llmgw.gateway.books import Books
from llmgw.gateway.charging import Charges
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.holding import Loads
from llmgw.gateway.silence import Patience
from llmgw.kit.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Surroundings:
    """See the module; ``draw`` gives random figures in [0, 1).

    ``epoch_at`` is the second since 1970 at which the clock of ``now`` began.
    Without ``charges`` nobody is asked for a key, and nothing is limited or charged.
    """

    settings: DispatchSettings
    registry: Registry
    affinity: Affinity
    admission: Admission
    loads: Loads
    books: Books
    patience: Patience
    asks_usage: bool
    checks_capabilities: bool
    now: Callable[[], float]
    epoch_at: float
    new_id: Callable[[], str]
    tasks: Tasks
    draw: Callable[[], float]
    charges: Charges | None = None
