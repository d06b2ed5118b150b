"""Old rows go without anybody asking, and trouble with that ends nothing."""

from __future__ import annotations

import pytest

from llmgw.accounting.retention import Retention
from llmgw.errors import Unreachable
from tests.fakes.clock import FakeClock
from tests.fakes.usage import DAY_S, MIDNIGHT, NOON
from tests.fakes.waiting import eventually


class Rows:
    """Fits ``retention.Aged``."""

    def __init__(self):
        self.asked = []

    async def prune(self, *, before):
        self.asked.append(before)
        if len(self.asked) == 1:
            raise Unreachable("away")
        return 1


@pytest.fixture
async def kept():
    rows = Rows()
    retention = Retention(rows, retain_days=7, clock=FakeClock(wall_s=NOON), every_s=0.01)
    retention.start()
    yield rows
    await retention.close()


async def test_days_beyond_those_wanted_go_again_and_again(kept):
    await eventually(lambda: len(kept.asked) >= 3)
    assert set(kept.asked) == {MIDNIGHT - 7 * DAY_S}
