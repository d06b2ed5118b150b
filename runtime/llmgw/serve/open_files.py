"""Take all the files that may be open, and say at a start where they are too few for what is set.

Called by the commands whose process carries requests, or starts workers that do: they inherit it.
"""

from __future__ import annotations

from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.kit import logs, openfiles

_log = logs.get(__name__)

_OTHERS = 64
"""What a process has open beside clients and engines; see ``gateway.descriptors``."""

_EACH_ENDPOINT = 2
"""A probe's connection, and one that is kept for later requests."""

_EACH_REQUEST = 2
"""Its client's connection, and one to its engine."""


def needed(
    *, models: int, endpoints: int, admission: AdmissionSettings, on_demand: OnDemandSettings
) -> int:
    """How many files a worker has open whose queues are full."""
    waiting = admission.queue_max + on_demand.hold_max
    return _OTHERS + _EACH_ENDPOINT * endpoints + _EACH_REQUEST * max(models, 1) * waiting


def take(
    *, models: int, endpoints: int, admission: AdmissionSettings, on_demand: OnDemandSettings
) -> None:
    """Raise the bound as far as the system lets us; a warning where that is not enough."""
    openfiles.take_all()
    allowed = openfiles.most()
    count = needed(models=models, endpoints=endpoints, admission=admission, on_demand=on_demand)
    if allowed < count:
        _log.warning("few_open_files", allowed=allowed, needed=count, hint=openfiles.HINT)
