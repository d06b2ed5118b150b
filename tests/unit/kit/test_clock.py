"""The clocks of a process."""

from __future__ import annotations

import time

from llmgw.kit.clock import SystemClock, WakefulClock


def test_a_wakeful_clock_counts_what_the_machine_slept_and_never_less_than_the_other():
    awake, wakeful = SystemClock(), WakefulClock()
    first = wakeful.monotonic()
    assert first >= awake.monotonic() - 0.001
    assert wakeful.monotonic() >= first
    assert abs(wakeful.wall() - time.time()) < 60
