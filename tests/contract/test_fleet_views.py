"""What everything that fits ``FleetViews`` promises to the admin API."""

from __future__ import annotations

import pytest

from llmgw.domain import summaries
from llmgw.errors import Unknown
from tests.fakes.fleet import FakeFleet


@pytest.fixture(params=[FakeFleet], ids=["fake"])
def fleet(request):
    return request.param()


def test_lists_are_in_the_order_of_their_names(fleet):
    for names in (
        [n.node_id for n in fleet.nodes()],
        [m.name for m in fleet.models()],
        [r.replica_id for r in fleet.replicas()],
    ):
        assert names == sorted(names)
        assert names


def test_status_is_the_sum_of_the_lists(fleet):
    page = fleet.status()
    assert page == summaries.summarise(
        control=page.control,
        nodes=fleet.nodes(),
        models=fleet.models(),
        replicas=fleet.replicas(),
    )


def test_unknown_model_is_unknown(fleet):
    with pytest.raises(Unknown):
        fleet.explain("no-such-model")


def test_explanation_has_a_reason_for_every_node_that_does_not_fit(fleet):
    for model in fleet.models():
        if not model.profiles:
            continue
        for profile in fleet.explain(model.name).profiles:
            assert {v.node_id for v in profile.nodes} <= {n.node_id for n in fleet.nodes()}
            assert all(bool(v.reason) is not v.is_fit for v in profile.nodes)


def test_alias_is_explained_as_the_model_that_it_stands_for(fleet):
    for model in fleet.models():
        for alias in model.aliases:
            assert fleet.explain(alias).model == model.name
