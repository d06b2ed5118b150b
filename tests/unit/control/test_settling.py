"""The wait after a start."""

from __future__ import annotations

import pytest

from llmgw.control.reconciler import settling
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import ExpireNode, MarkFailed, Place
from llmgw.domain.replicas import ShardState
from tests.fakes import clusters
from tests.fakes.clusters import NOW

WINDOW_S = 60.0


def after(looks, *, expected=()):
    """The wait after looks at ``(second, nodes)``, and the second at which it was over."""
    wait = settling.begun(now=NOW)
    for second, count in looks:
        names = [f"n{i}" for i in range(count)]
        wait = settling.noted(
            wait, registered=names, expected=expected, now=NOW + second, window_s=WINDOW_S
        )
        if wait.is_over:
            return second
    return None


def every(step_s, *, until, counts):
    """A look each ``step_s``; ``counts`` maps a second to the number of nodes from then on."""
    return [
        (second, counts[max(s for s in counts if s <= second)])
        for second in range(0, until + 1, step_s)
    ]


def test_it_ends_when_the_number_has_stood_for_half_the_window():
    assert after(every(5, until=100, counts={0: 0, 5: 3})) == 35


def test_empty_fleet_is_not_awaited_longer_than_a_steady_one():
    assert after(every(5, until=100, counts={0: 0})) == 30


def test_second_wave_starts_the_steady_time_anew_and_not_the_window():
    assert after(every(1, until=100, counts={0: 0, 1: 2, 17: 5})) == 47
    assert after(every(1, until=100, counts={0: 0, 1: 2, 17: 5, 40: 6})) == 60


def test_it_ends_with_the_window_whatever_comes():
    assert after([(i, i) for i in range(100)]) == 60


def test_it_ends_at_once_when_the_expected_nodes_are_there():
    looks = every(1, until=100, counts={0: 0, 2: 1, 3: 2})
    assert after(looks, expected=["n0", "n1"]) == 3
    assert after(looks, expected=["n0", "n9"]) == 33


def test_node_that_joins_later_does_not_begin_it_again():
    wait = settling.begun(now=NOW)
    over = settling.noted(wait, registered=["n0"], expected=["n0"], now=NOW, window_s=WINDOW_S)
    later = settling.noted(
        over, registered=["n0", "n1"], expected=["n0", "n1", "n2"], now=NOW + 1, window_s=WINDOW_S
    )
    assert later == over
    assert settling.left_s(later, now=NOW + 1, window_s=WINDOW_S) == 0


@pytest.mark.parametrize(("second", "left_s"), [(0, 30), (10, 20), (29, 1)])
def test_time_left_is_told(second, left_s):
    wait = settling.begun(now=NOW)
    assert settling.left_s(wait, now=NOW + second, window_s=WINDOW_S) == left_s


def test_window_of_zero_never_waits():
    wait = settling.begun(now=NOW)
    assert settling.noted(wait, registered=[], expected=[], now=NOW, window_s=0.0).is_over


def test_only_placement_waits():
    silent = clusters.node("n2", now=NOW - 60)
    broken = clusters.replica("m-1", clusters.shard(state=ShardState.FAILED))
    on = clusters.cluster(clusters.node("n1"), silent, replicas=[broken])
    decision = decide(clusters.snapshot(clusters.model("m"), on=on, settled=False))
    kinds = {type(action) for action in decision.actions}
    assert {ExpireNode, MarkFailed} <= kinds
    assert Place not in kinds
