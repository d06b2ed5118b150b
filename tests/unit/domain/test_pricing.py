"""What tokens cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain import usage_rows
from llmgw.domain.pricing import FREE, Price, PriceTable, cost
from llmgw.domain.usage_rows import DispatchNote
from llmgw.errors import Invalid

AMOUNTS = st.integers(min_value=0, max_value=10**9)


@pytest.mark.parametrize(
    ("price", "prompt", "completion", "micros"),
    [
        pytest.param(Price(1000, 0), 1, 0, 1, id="one token at one micro-unit"),
        pytest.param(Price(1000, 3000), 1000, 1000, 4000, id="both halves"),
        pytest.param(Price(1, 1), 1, 1, 2, id="each half is rounded up by itself"),
        pytest.param(Price(1000, 3000), 0, 0, 0, id="nothing costs nothing"),
        pytest.param(Price(1000, 3000), -5, -5, 0, id="less than nothing costs nothing"),
        pytest.param(FREE, 10**6, 10**6, 0, id="free"),
    ],
)
def test_a_request_costs_both_halves_each_rounded_up(price, prompt, completion, micros):
    assert cost(price, prompt, completion) == micros


@given(per_1k=AMOUNTS, tokens=AMOUNTS)
def test_no_half_costs_less_than_its_tokens_nor_a_micro_unit_more(per_1k, tokens):
    micros = cost(Price(per_1k, 0), tokens, 0)
    assert 0 <= micros * 1000 - per_1k * tokens < 1000


@pytest.mark.parametrize("halves", [(-1, 0), (0, -1)])
def test_a_price_below_nothing_is_refused(halves):
    with pytest.raises(Invalid, match="below 0"):
        Price(*halves)


def test_a_listed_model_has_its_own_price_in_any_case_even_when_it_is_free():
    table = PriceTable({"Chat": Price(5, 6), "gift": FREE}, Price(1, 2))
    assert table.of("cHAT") == Price(5, 6)
    assert table.of("gift") == FREE
    assert table.of("other") == Price(1, 2)


@pytest.mark.parametrize(
    ("table", "is_priced"),
    [
        pytest.param(PriceTable(), False, id="no prices"),
        pytest.param(PriceTable({"chat": FREE}), False, id="all free"),
        pytest.param(PriceTable({"chat": FREE, "big": Price(0, 1)}), True, id="one priced"),
        pytest.param(PriceTable({"chat": FREE}, Price(1, 0)), True, id="a default price"),
    ],
)
def test_a_table_says_whether_a_budget_can_move(table, is_priced):
    assert table.is_anything_priced() is is_priced


def test_a_lost_request_costs_its_estimated_prompt_and_is_marked():
    note = DispatchNote("r1", 7.0, "k1", "u1", "p1", "chat", 2000, 500, Price(1000, 3000), ())
    row = usage_rows.lost(note)
    assert (row.outcome, row.is_estimated, row.at) == ("lost", True, 7.0)
    assert (row.prompt_tokens, row.completion_tokens, row.cost_micros) == (2000, 0, 2000)
    assert row.served_model == "chat"
