"""How the reconciler is set: its pace, its bounds, and the nodes that it awaits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from llmgw.config.settings import ControlSettings
from llmgw.domain.snapshots import Bounds


@dataclass(frozen=True, slots=True)
class Options:
    """``interval_s`` is the longest time between two passes, ``wake_gap_s`` the shortest."""

    interval_s: float = 5.0
    wake_gap_s: float = 0.1
    thread_above_s: float = 0.02
    """A pass that is expected to take longer runs beside the event loop."""
    bounds: Bounds = field(default_factory=Bounds)
    expected_nodes: frozenset[str] = field(default_factory=frozenset)


def of(control: ControlSettings, *, also_expected: Collection[str] = ()) -> Options:
    """The options that settings stand for; ``also_expected`` are nodes known in another way."""
    return Options(
        interval_s=control.interval,
        bounds=Bounds(
            unreachable_after_s=control.unreachable_after,
            lost_after_s=control.lost_after,
            base_backoff_s=control.base_backoff,
            max_backoff_s=control.max_backoff,
            settle_window_s=control.settle_window,
            port_range=control.port_range,
            max_unavailable=control.max_unavailable,
            canary_s=control.canary_s,
            min_residency_s=control.min_residency_s,
            evict_idle_after_s=control.evict_idle_after_s,
            brake_fraction=control.brake.fraction,
            brake_min_nodes=control.brake.min_nodes,
            brake_window_s=control.brake.window_s,
            brake_max_s=control.brake.max_s,
        ),
        expected_nodes=frozenset((*control.expect_nodes, *also_expected)),
    )
