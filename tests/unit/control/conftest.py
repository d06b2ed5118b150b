"""An ear for what the control plane logs."""

from __future__ import annotations

import pytest

from tests.fakes.log_ear import heard


@pytest.fixture
def control_log():
    """The events that the control plane logs, as (event, keys)."""
    with heard("llmgw.control") as events:
        yield events
