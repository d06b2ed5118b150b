"""Whether an engine that answers nothing works all the same."""

from __future__ import annotations

import pytest

from llmgw.domain.work import ShardWork, has_worked


def look(*, cpu_time_s=None, gpu_utilization_percent=None, cpu_wait_s=None):
    return ShardWork("r.0", cpu_time_s, gpu_utilization_percent, cpu_wait_s)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(look(cpu_time_s=10.0), look(cpu_time_s=10.49), False, id="below-a-tenth"),
        pytest.param(look(cpu_time_s=10.0), look(cpu_time_s=10.5), True, id="a-tenth-of-a-core"),
        pytest.param(look(cpu_time_s=10.0), look(cpu_time_s=3.0), True, id="a-process-has-ended"),
        pytest.param(None, look(cpu_time_s=10.0), False, id="a-first-look-has-no-growth"),
        pytest.param(look(cpu_time_s=1.0), look(), False, id="not-measured-any-more"),
        pytest.param(None, look(gpu_utilization_percent=5), True, id="a-card-at-work"),
        pytest.param(None, look(gpu_utilization_percent=4), False, id="a-card-at-rest"),
        pytest.param(look(), look(), False, id="nothing-known"),
        pytest.param(
            look(cpu_time_s=1.0, cpu_wait_s=7.0),
            look(cpu_time_s=1.2, cpu_wait_s=9.3),
            True,
            id="a-core-that-it-does-not-get",
        ),
        pytest.param(
            look(cpu_time_s=1.0, cpu_wait_s=7.0),
            look(cpu_time_s=1.2, cpu_wait_s=9.2),
            False,
            id="a-moments-housekeeping-that-had-to-wait",
        ),
        pytest.param(
            look(cpu_time_s=1.0), look(cpu_time_s=1.2, cpu_wait_s=9.2), False, id="waits-unknown"
        ),
    ],
)
def test_work_is_a_tenth_of_a_core_or_a_busy_card(before, after, expected):
    assert has_worked(before, after, elapsed_s=5.0) is expected
