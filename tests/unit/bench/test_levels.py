"""What a level showed, and which promises it broke."""

from __future__ import annotations

import pytest

from llmgw.bench.levels import EngineLoad, Sample, spread, summarise
from llmgw.bench.slo import Slo


def level(*samples, concurrency=2, wall_s=2.0):
    return summarise(samples, concurrency=concurrency, wall_s=wall_s, load=EngineLoad())


GOOD = Sample(took_s=1.0, ttft_s=0.1, stream_s=0.9, tokens=10)
FAILED = Sample(took_s=0.1, error="status 503, no")


def test_percentiles_are_of_the_nearest_rank():
    times = spread([i / 100 for i in range(1, 101)])
    assert (times.p50_s, times.p95_s, times.p99_s) == (0.5, 0.95, 0.99)
    assert spread([3.0]).p99_s == 3.0


def test_without_a_time_there_is_no_percentile():
    assert spread([]) is None
    assert level(FAILED).ttft is None


def test_times_of_failed_requests_count_in_none_and_their_tokens_do():
    broken = Sample(took_s=9.0, ttft_s=9.0, stream_s=0.0, tokens=4, error="the stream broke off")
    figures = level(GOOD, broken)
    assert figures.ttft.p99_s == 0.1
    assert figures.tokens == 14
    assert figures.errors == {"the stream broke off": 1}
    assert figures.requests_per_s == 0.5


def test_an_answer_of_one_token_has_no_time_per_further_token():
    assert level(Sample(took_s=1.0, ttft_s=1.0, tokens=1)).tpot is None


def test_a_level_that_kept_everything_broke_nothing():
    assert Slo(ttft_p95_s=0.1, tpot_p95_s=0.1).broken_by(level(GOOD, GOOD)) == ()


@pytest.mark.parametrize(
    ("slo", "samples", "said"),
    [
        (Slo(ttft_p95_s=0.05), [GOOD], "TTFT p95 0.1 s is over 0.05 s"),
        (Slo(tpot_p95_s=0.05), [GOOD], "TPOT p95 100 ms is over 50 ms"),
        (Slo(), [GOOD, FAILED], "1 of 2 failed (1 times: status 503, no)"),
        (Slo(error_share=1.0), [FAILED], "no request was answered whole"),
    ],
    ids=["ttft", "tpot", "errors", "nothing"],
)
def test_each_broken_promise_is_named_with_both_figures(slo, samples, said):
    assert slo.broken_by(level(*samples)) == (said,)
