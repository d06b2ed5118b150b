"""An ear for what a part of the product logs."""

from __future__ import annotations

import logging
from contextlib import contextmanager


@contextmanager
def heard(source):
    """The events of one logger and those below it, as (event, keys)."""
    events = []

    class Keep(logging.Handler):
        def emit(self, record):
            events.append((record.getMessage(), getattr(record, "keys", {})))

    logger = logging.getLogger(source)
    handler, level = Keep(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield events
    logger.removeHandler(handler)
    logger.setLevel(level)
