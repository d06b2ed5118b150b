"""Prices are written down by model, in whole micro-units."""

from __future__ import annotations

import pytest

from llmgw.accounting import prices
from llmgw.accounting.prices import RoutedPrices
from llmgw.config.loading import load_server
from llmgw.domain.pricing import FREE, Price, PriceTable
from llmgw.domain.routes import RoutedModel, RouteTable
from llmgw.errors import SettingsInvalid


@pytest.fixture
def load(tmp_path):
    def loaded(text, **environ):
        file = tmp_path / "server.yaml"
        file.write_text(text)
        return load_server(file, environ=environ).auth

    return loaded


def priced(auth):
    return PriceTable(prices.listed(auth.pricing), prices.written(auth.default_price))


def test_nothing_costs_anything_unless_it_is_written(load):
    assert not priced(load("auth: {}")).is_anything_priced()


def test_each_model_has_its_price_and_others_the_default(load):
    table = priced(
        load(
            "auth: {default_price: {prompt_per_1k: 7}, pricing: "
            "{chat: {prompt_per_1k: 1000, completion_per_1k: 3000}, gift: {}}}"
        )
    )
    assert table.of("chat") == Price(1000, 3000)
    assert table.of("gift") == FREE
    assert table.of("other") == Price(7, 0)


def test_prices_may_come_by_a_variable(load):
    auth = load("auth: {}", LLMGW_AUTH__PRICING="{chat: {completion_per_1k: 5}}")
    assert priced(auth).of("chat") == Price(0, 5)


def test_a_models_own_price_goes_before_what_the_settings_list():
    listed = PriceTable({"chat": Price(1, 1), "big": Price(2, 2)}, Price(9, 9))
    routes = RouteTable(
        models={
            "chat": RoutedModel("chat", price=Price(1000, 3000)),
            "big": RoutedModel("big"),
            "gift": RoutedModel("gift", price=FREE),
        }
    )
    table = RoutedPrices(listed, current=lambda: routes)
    assert table.of("chat") == Price(1000, 3000)
    assert table.of("big") == Price(2, 2)
    assert table.of("gift") == FREE
    assert table.of("unknown") == Price(9, 9)


@pytest.mark.parametrize(
    ("pricing", "mistake"),
    [
        pytest.param(
            "{chat: {prompt_per_1k: -1}}",
            "auth.pricing.chat.prompt_per_1k: -1 is too",
            id="below 0",
        ),
        pytest.param(
            "{chat: {prompt_per_1k: 0.5}}",
            "auth.pricing.chat.prompt_per_1k: 0.5 is not a whole",
            id="a part",
        ),
        pytest.param(
            "{chat: 5}", "auth.pricing.chat: 5 is not a section with prompt", id="a number"
        ),
        pytest.param("{chat: {price: 5}}", "auth.pricing.chat.price: unknown key", id="unknown"),
        pytest.param(
            "[chat]", "auth.pricing: ['chat'] is not a section of names, each with a s", id="list"
        ),
    ],
)
def test_a_price_that_cannot_be_is_a_mistake(load, pricing, mistake):
    with pytest.raises(SettingsInvalid) as caught:
        load(f"auth: {{pricing: {pricing}}}")
    assert [str(problem)[: len(mistake)] for problem in caught.value.problems] == [mistake]
