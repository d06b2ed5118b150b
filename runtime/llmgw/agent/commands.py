"""Carries out what the control plane says: turns each message into a call of the orders port.

An order of an older leader than the newest that this node has seen is refused. Whatever one message
does, the stream goes on: what is refused is answered with the reason, an unknown one counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmgw.agent.node_ports import NodeUpkeep, ShardOrders
from llmgw.agent.outbox import Outbox
from llmgw.domain import weights
from llmgw.domain.deeds import Deed, OrderReply
from llmgw.domain.replicas import ShardReport, ShardState
from llmgw.errors import LlmgwError, Standby, Unknown, Unsupported
from llmgw.kit import logs
from llmgw.rpc import wire_orders, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb

DEFAULT_LINES = 200
MAX_LINES = 2000

_SUBJECTS: Mapping[str, Callable[[Any], Sequence[str]]] = {
    "start": lambda order: (order.shard_id,),
    "stop": lambda order: (order.shard_id,),
    "drain": lambda order: (order.shard_id,),
    "remove_weights": lambda order: tuple(order.paths),
    "check_engine": lambda order: (order.engine,),
    "fetch_weights": lambda order: tuple(map(weights.shown, order.sources)),
    "provision": lambda order: tuple(f"{one.engine} {one.version}" for one in order.engines),
}
"""What each order is about; an answer to a question carries its refusal itself."""

_log = logs.get(__name__)


class Terms:
    """The highest leadership term that this node has seen, over all sessions and control planes."""

    def __init__(self) -> None:
        """Begin with none."""
        self.highest = 0

    def check(self, term: int) -> None:
        """Remember a newer term; ``Standby`` for an older one. 0 is not checked."""
        if 0 < term < self.highest:
            raise Standby(
                f"term {term} is over: this node has seen term {self.highest}, so another leads"
            )
        self.highest = max(self.highest, term)


class Commands:
    """One node's ear."""

    def __init__(
        self,
        *,
        node_id: str,
        orders: ShardOrders,
        upkeep: NodeUpkeep | None,
        outbox: Outbox,
        terms: Terms,
    ) -> None:
        """Answers go to ``outbox``; without ``upkeep`` orders about the node are refused."""
        self._node_id = node_id
        self._orders = orders
        self._upkeep = upkeep
        self._outbox = outbox
        self._terms = terms
        self._deeds: Mapping[str, Callable[[Any], None]] = {
            "start": self._start,
            "stop": self._stop,
            "drain": self._drain,
            "remove_weights": self._remove_weights,
            "provision": self._provision,
            "check_engine": self._check_engine,
            "fetch_weights": self._fetch_weights,
            "logs": self._send_logs,
            "ack": self._hear_refusal,
        }
        self.ignored = 0
        self.refused = 0

    def obey(self, message: pb.ControlMessage) -> None:
        """Do what one message says; never raises."""
        kind = message.WhichOneof("kind") or "unknown"
        deed = self._deeds.get(kind)
        if deed is None:
            self.ignored += 1
            _log.warning("message_ignored", kind=kind, ignored=self.ignored)
            return
        order = getattr(message, kind)
        try:
            deed(order)
        except LlmgwError as error:
            _log.warning("order_refused", kind=kind, reason=error.message)
            self._refuse(kind, order, reason=error.message)
        except Exception as error:  # noqa: BLE001 - one order must not end the node's stream
            _log.error("order_failed", kind=kind, error=repr(error), exc=error)
            self._refuse(kind, order, reason=f"the agent failed: {error!r}")

    def _start(self, start: pb.StartShard) -> None:
        spec = wire_shards.unpack_start(start)
        try:
            self._terms.check(start.term)
            self._orders.start(spec)
        except Exception as error:
            if all(shard.shard_id != spec.shard_id for shard in self._orders.running()):
                self._report_refused(start, error)
            raise

    def _stop(self, stop: pb.StopShard) -> None:
        self._terms.check(stop.term)
        self._orders.stop(stop.shard_id)

    def _drain(self, drain: pb.DrainShard) -> None:
        self._terms.check(drain.term)
        self._orders.drain(drain.shard_id)

    def _remove_weights(self, order: pb.RemoveWeights) -> None:
        self._terms.check(order.term)
        paths = tuple(order.paths)
        self._caretaker().remove_weights(paths, on_done=self._answering("remove_weights", order))

    def _provision(self, order: pb.Provision) -> None:
        self._terms.check(order.term)
        wants = wire_orders.unpack_provision(order)
        self._caretaker().provision(wants, on_done=self._answering("provision", order))

    def _check_engine(self, order: pb.CheckEngine) -> None:
        self._terms.check(order.term)
        answer = self._answering("check_engine", order)
        self._caretaker().check_engine(order.engine, on_done=answer)

    def _fetch_weights(self, order: pb.FetchWeights) -> None:
        self._terms.check(order.term)
        self._caretaker().fetch_weights(
            tuple(order.sources),
            is_cancelled=order.cancel,
            on_done=self._answering("fetch_weights", order),
        )

    def _caretaker(self) -> NodeUpkeep:
        if self._upkeep is None:
            raise Unsupported("this node has no files and no engines of its own")
        return self._upkeep

    def _answering(
        self,
        kind: str,
        order: pb.RemoveWeights | pb.Provision | pb.CheckEngine | pb.FetchWeights,
    ) -> Callable[[tuple[Deed, ...]], None]:
        return functools.partial(self._answer, kind, order.request_id)

    def _answer(self, kind: str, request_id: str, deeds: tuple[Deed, ...]) -> None:
        reply = OrderReply(order=kind, deeds=deeds, request_id=request_id)
        self._outbox.put(wire_orders.pack_reply(reply))

    def _refuse(self, kind: str, order: Any, *, reason: str) -> None:
        """Say to whoever gave the order that nothing came of it."""
        self.refused += 1
        subjects = _SUBJECTS.get(kind)
        if subjects is not None:
            deeds = tuple(Deed(one, is_done=False, detail=reason) for one in subjects(order))
            self._answer(kind, getattr(order, "request_id", ""), deeds)

    def _send_logs(self, request: pb.LogsRequest) -> None:
        lines, error = self._tail(request)
        reply = wire_shards.pack_logs(
            request_id=request.request_id,
            lines=lines,
            sources=self._orders.log_sources(),
            error=error,
        )
        self._outbox.put(reply)

    def _tail(self, request: pb.LogsRequest) -> tuple[tuple[str, ...], str]:
        count = min(request.lines, MAX_LINES) if request.lines > 0 else DEFAULT_LINES
        try:
            self._terms.check(request.term)
            return self._orders.log_tail(request.source, count), ""
        except (Standby, Unknown) as error:
            return (), error.message

    def _hear_refusal(self, ack: pb.Ack) -> None:
        if not ack.ok:
            _log.warning("message_refused", message_id=ack.message_id, reason=ack.error)
        self._terms.check(ack.term)

    def _report_refused(self, start: pb.StartShard, error: Exception) -> None:
        reason = error.message if isinstance(error, LlmgwError) else repr(error)
        self._outbox.report(
            ShardReport(
                node_id=self._node_id,
                replica_id=start.replica_id,
                shard_id=start.shard_id,
                state=ShardState.FAILED,
                error=f"start refused: {reason}",
            )
        )
