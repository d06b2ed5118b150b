"""The table of a server that only routes."""

from __future__ import annotations

from llmgw.config.settings import StaticEndpoint
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.routes import ModelState
from llmgw.serve import static_routes

NO_CATALOG = Catalog()


def table(*endpoints, catalog=NO_CATALOG, keys=None):
    keys = {endpoint.id: "" for endpoint in endpoints} | (keys or {})
    return static_routes.build(endpoints, catalog=catalog, keys=keys, created_at=7)


def endpoint(name="a", *models, **others):
    return StaticEndpoint(id=name, url="http://10.0.0.1:8000/", models=models or ("m",), **others)


def test_each_name_is_a_model_that_is_ready():
    built = table(endpoint("a", "m", "n"), endpoint("b", "m"))
    assert set(built.models) == {"m", "n"}
    assert built.resolve("m").state is ModelState.READY
    assert built.resolve("m").created_at == 7
    assert [e.endpoint_id for e in built.endpoints if "m" in e.models] == ["a", "b"]


def test_a_table_has_a_number_so_that_it_does_not_count_as_none():
    assert table(endpoint()).number > 0


def test_weight_priority_engine_and_key_go_along():
    given = endpoint("a", weight=2.5, priority=1, engine="vllm")
    [built] = table(given, keys={"a": "s3cret"}).endpoints
    assert (built.weight, built.priority, built.engine) == (2.5, 1, "vllm")
    assert built.api_key == "s3cret"
    assert built.url == "http://10.0.0.1:8000"
    assert "s3cret" not in repr(built)


def test_a_catalog_entry_brings_its_aliases_and_its_context():
    catalog = catalog_rules.build(
        [Model(name="m", source="s", aliases=("small",), context_length=512)]
    )
    built = table(endpoint("a", "m"), catalog=catalog)
    assert built.resolve("small").name == "m"
    assert built.resolve("m").context_length == 512


def test_an_endpoint_listed_under_an_alias_is_asked_by_that_name():
    catalog = catalog_rules.build([Model(name="m", source="s", aliases=("small",))])
    [built] = table(endpoint("a", "small"), catalog=catalog).endpoints
    assert built.models == ("m",)
    assert built.upstream_model == "small"


def test_an_endpoint_with_several_models_is_asked_for_each_by_its_name():
    [built] = table(endpoint("a", "m", "n")).endpoints
    assert built.upstream_model == ""
