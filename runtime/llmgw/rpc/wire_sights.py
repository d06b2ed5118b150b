"""Translates what gateways see and what they hear back; times travel as ages."""

from __future__ import annotations

from llmgw.domain.gateway_reports import EndpointReport, Evidence, GatewayReport, ReportAnswer
from llmgw.rpc import wire_routes
from llmgw.rpc.v1 import gateway_pb2 as pb


def pack_report(report: GatewayReport) -> pb.GatewayReport:
    """All that a gateway sees at one moment."""
    return pb.GatewayReport(
        name=report.name,
        instance=report.instance,
        term=report.term,
        number=report.number,
        workers=report.workers,
        endpoints=(
            pb.EndpointReport(
                endpoint_id=one.endpoint_id,
                inflight=one.inflight,
                used_ago_ms=_ms(one.used_ago_s),
                ejected_ago_ms=_ms(one.ejected_ago_s),
                is_stalled=one.is_stalled,
                answered_ago_ms=_ms(one.answered_ago_s),
            )
            for one in report.endpoints
        ),
        asked=sorted(report.asked),
        is_leaving=report.is_leaving,
    )


def unpack_report(report: pb.GatewayReport) -> GatewayReport:
    """All that a gateway sees at one moment."""
    return GatewayReport(
        name=report.name,
        instance=report.instance,
        term=report.term,
        number=report.number if report.HasField("number") else None,
        workers=report.workers,
        endpoints=tuple(
            EndpointReport(
                endpoint_id=one.endpoint_id,
                inflight=one.inflight,
                used_ago_s=one.used_ago_ms / 1000 if one.HasField("used_ago_ms") else None,
                ejected_ago_s=(
                    one.ejected_ago_ms / 1000 if one.HasField("ejected_ago_ms") else None
                ),
                is_stalled=one.is_stalled,
                answered_ago_s=(
                    one.answered_ago_ms / 1000 if one.HasField("answered_ago_ms") else None
                ),
            )
            for one in report.endpoints
        ),
        asked=frozenset(report.asked),
        is_leaving=report.is_leaving,
    )


def pack_answer(answer: ReportAnswer) -> pb.ReportAnswer:
    """What a gateway hears back."""
    return pb.ReportAnswer(
        demand=map(wire_routes.pack_model, answer.demand),
        evidence=(
            pb.Evidence(
                endpoint_id=one.endpoint_id,
                looked_ago_ms=_age(one.looked_ago_s),
                worked_ago_ms=_ms(one.worked_ago_s),
            )
            for one in answer.evidence
        ),
    )


def unpack_answer(answer: pb.ReportAnswer) -> ReportAnswer:
    """What a gateway hears back."""
    return ReportAnswer(
        demand=tuple(map(wire_routes.unpack_model, answer.demand)),
        evidence=tuple(
            Evidence(
                endpoint_id=one.endpoint_id,
                looked_ago_s=one.looked_ago_ms / 1000,
                worked_ago_s=one.worked_ago_ms / 1000 if one.HasField("worked_ago_ms") else None,
            )
            for one in answer.evidence
        ),
    )


def _ms(age_s: float | None) -> int | None:
    return None if age_s is None else _age(age_s)


def _age(age_s: float) -> int:
    """In milliseconds; a clock that was read a little too early makes less than nothing."""
    return max(0, round(age_s * 1000))
