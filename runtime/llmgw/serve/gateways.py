"""Makes the gateway of one process from its settings: a worker's, or that of ``llmgw up``."""

from __future__ import annotations

import sys

from llmgw.config.settings import LogSettings, RouterSettings
from llmgw.gateway.ports import RouteSource
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.server import Gateway
from llmgw.kit import logs
from llmgw.kit.clock import SystemClock

_log = logs.get(__name__)


def make(*, router: RouterSettings, log: LogSettings, routes: RouteSource) -> Gateway:
    """A gateway that has not started; it writes a line a request where INFO is written."""
    request_log = None
    if _log.is_enabled_for_info():
        request_log = RequestLog(
            stream=sys.stderr, as_json=log.format == "json", clock=SystemClock()
        )
    return Gateway(settings=router, routes=routes, request_log=request_log)
