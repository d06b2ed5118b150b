"""A table, a change and a report that are sent are those that arrive."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain import route_changes
from llmgw.domain.gateway_reports import EndpointReport, Evidence, GatewayReport, ReportAnswer
from llmgw.domain.pricing import Price
from llmgw.domain.routes import Endpoint, EndpointState, ModelState, RoutedModel, RouteTable
from llmgw.errors import Invalid
from llmgw.rpc import wire_routes, wire_sights
from llmgw.rpc.v1 import gateway_pb2 as pb

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
COUNT = st.integers(0, 2**31 - 1)
AGE_S = st.none() | st.integers(0, 10**7).map(lambda ms: ms / 1000)
NUMBER = st.floats(allow_nan=False)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)

MODELS = st.builds(
    RoutedModel,
    name=TEXT,
    aliases=TEXTS,
    state=st.sampled_from(ModelState),
    created_at=COUNT,
    owned_by=TEXT,
    context_length=st.none() | COUNT,
    capabilities=TEXTS,
    description=st.none() | TEXT,
    fallbacks=TEXTS,
    routing_profile=TEXT,
    retry_after_s=st.none() | COUNT,
    ready_expected_at=st.none() | NUMBER,
    is_on_demand=st.booleans(),
    failure=TEXT,
    price=st.none() | st.builds(Price, prompt_per_1k=COUNT, completion_per_1k=COUNT),
)
ENDPOINTS = st.builds(
    Endpoint,
    endpoint_id=TEXT,
    url=TEXT,
    models=TEXTS,
    engine=TEXT,
    node_id=TEXT,
    pool=TEXT,
    weight=NUMBER,
    priority=COUNT,
    state=st.sampled_from(EndpointState),
    api_key=TEXT,
    upstream_model=TEXT,
    context_length=st.none() | COUNT,
    capabilities=TEXTS,
    usage_injection=st.booleans(),
)


def table(endpoints, models, *, number, term=3):
    by_name = {model.name: model for model in models}
    return RouteTable(
        number=number,
        term=term,
        endpoints=tuple({one.endpoint_id: one for one in endpoints}.values()),
        models=by_name,
        canonical=route_changes.canonical(by_name),
    )


def tables(number):
    return st.builds(
        lambda endpoints, models: table(endpoints, models, number=number),
        st.lists(ENDPOINTS, max_size=3),
        st.lists(MODELS, max_size=3),
    )


@given(sent=tables(5))
def test_a_snapshot_arrives_as_it_was(sent):
    update = arrived(wire_routes.pack_snapshot(sent, term=sent.term))
    assert wire_routes.unpack_snapshot(update) == sent


@given(before=tables(5), after=tables(6))
def test_a_difference_arrives_as_it_was(before, after):
    change = route_changes.between(before, after)
    if change is None:
        return
    update = arrived(wire_routes.pack_change(change, term=3))
    assert wire_routes.unpack_change(update) == change
    assert update.term == 3


@pytest.mark.parametrize("kind", [Endpoint, RoutedModel], ids=lambda kind: kind.__name__)
def test_every_field_of_a_table_has_its_place_in_the_messages(kind):
    message = {Endpoint: pb.RoutedEndpoint, RoutedModel: pb.ModelFacts}[kind]
    ours = {field.name for field in dataclasses.fields(kind)}
    assert {field.name for field in message.DESCRIPTOR.fields} == ours


@given(
    report=st.builds(
        GatewayReport,
        name=TEXT,
        instance=TEXT,
        term=COUNT,
        number=st.none() | COUNT,
        workers=COUNT,
        endpoints=st.lists(
            st.builds(
                EndpointReport,
                endpoint_id=TEXT,
                inflight=COUNT,
                used_ago_s=AGE_S,
                ejected_ago_s=AGE_S,
                is_stalled=st.booleans(),
                answered_ago_s=AGE_S,
            ),
            max_size=2,
        ).map(tuple),
        asked=st.frozensets(TEXT, max_size=2),
        is_leaving=st.booleans(),
    )
)
def test_a_report_arrives_as_it_was(report):
    sent = wire_sights.pack_report(report)
    assert wire_sights.unpack_report(pb.GatewayReport.FromString(bytes_of(sent))) == report


def test_an_answer_arrives_as_it_was():
    answer = ReportAnswer(
        demand=(RoutedModel(name="m", state=ModelState.LOADING, retry_after_s=10),),
        evidence=(Evidence("a", looked_ago_s=0.5), Evidence("b", looked_ago_s=1, worked_ago_s=2)),
    )
    sent = wire_sights.pack_answer(answer)
    assert wire_sights.unpack_answer(pb.ReportAnswer.FromString(bytes_of(sent))) == answer


def test_an_unknown_state_is_refused_with_those_that_there_are():
    update = pb.RouteUpdate(
        number=1, snapshot=pb.RouteSnapshot(endpoints=[pb.RoutedEndpoint(state="asleep")])
    )
    with pytest.raises(Invalid, match="'asleep' is none of the states ready, draining"):
        wire_routes.unpack_snapshot(update)


def arrived(update):
    return pb.RouteUpdate.FromString(bytes_of(update))


def bytes_of(message):
    return message.SerializeToString()
