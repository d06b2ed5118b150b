"""Translates orders about a node itself, its downloads and its engines, and their answers."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.domain.deeds import Deed, EngineWant, OrderReply
from llmgw.rpc import texts
from llmgw.rpc.v1 import agent_pb2 as pb


def pack_remove_weights(paths: Iterable[str], *, request_id: str, term: int) -> pb.ControlMessage:
    """The wish that downloads go; the agent judges each for itself."""
    order = pb.RemoveWeights(paths=paths, request_id=request_id, term=term)
    return pb.ControlMessage(remove_weights=order)


def pack_provision(wants: Iterable[EngineWant], *, request_id: str, term: int) -> pb.ControlMessage:
    """The engines that a node should have."""
    engines = [pb.EngineWant(engine=want.engine, version=want.version) for want in wants]
    order = pb.Provision(engines=engines, request_id=request_id, term=term)
    return pb.ControlMessage(provision=order)


def unpack_provision(order: pb.Provision) -> tuple[EngineWant, ...]:
    """The engines that this node should have."""
    return tuple(EngineWant(engine=want.engine, version=want.version) for want in order.engines)


def pack_fetch_weights(
    sources: Iterable[str], *, is_cancelled: bool, request_id: str, term: int
) -> pb.ControlMessage:
    """The wish that weights are there before they are needed, or that they need not be."""
    order = pb.FetchWeights(sources=sources, cancel=is_cancelled, request_id=request_id, term=term)
    return pb.ControlMessage(fetch_weights=order)


def pack_check_engine(engine: str, *, request_id: str, term: int) -> pb.ControlMessage:
    """The question whether an engine takes the options that its driver uses."""
    order = pb.CheckEngine(engine=engine, request_id=request_id, term=term)
    return pb.ControlMessage(check_engine=order)


def pack_reply(reply: OrderReply) -> pb.AgentMessage:
    """What became of an order."""
    deeds = [
        pb.Deed(
            subject=texts.repaired(deed.subject),
            done=deed.is_done,
            detail=texts.repaired(deed.detail)[: texts.MAX_LINE_CHARS],
        )
        for deed in reply.deeds
    ]
    message = pb.OrderReply(request_id=reply.request_id, order=reply.order, deeds=deeds)
    return pb.AgentMessage(order=message)


def unpack_reply(reply: pb.OrderReply) -> OrderReply:
    """What became of an order."""
    deeds = tuple(
        Deed(subject=deed.subject, is_done=deed.done, detail=deed.detail) for deed in reply.deeds
    )
    return OrderReply(order=reply.order, deeds=deeds, request_id=reply.request_id)
