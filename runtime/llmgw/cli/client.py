"""Asks the admin API of a control plane, and turns its answers back into views and our errors."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from llmgw.cli import leaders
from llmgw.domain.actors import ACTOR_HEADER, ORIGIN_HEADER
from llmgw.domain.deeds import Deed
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.outlooks import OutlookView, PlanView
from llmgw.domain.placement_views import PlacementView
from llmgw.domain.questions import Supposed
from llmgw.domain.status_views import StatusView
from llmgw.domain.views import LogTail, ModelView, NodeView, RefusalView, ReplicaView
from llmgw.domain.weight_views import FetchView, OrphanView, RemovalView
from llmgw.errors import (
    Conflict,
    DeadlinePassed,
    Denied,
    Exhausted,
    Internal,
    Invalid,
    LlmgwError,
    NoControlPlane,
    NotConnected,
    Standby,
    Unauthenticated,
    Unavailable,
    Unknown,
    Unreachable,
)

ANSWER_TIMEOUT_S = 15.0
"""Longest wait for one answer; above the 10 s that the server gives a node to send its logs."""

COLLECT_TIMEOUT_S = 75.0
"""Above the minute that the server gives nodes to remove files."""

AHEAD_TIMEOUT_S = 120.0
"""For looking ahead over a large fleet, and for redacting a long journal."""

CHECK_TIMEOUT_S = 450.0
"""Above the 420 s that the server gives a node to ask its engines."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DownloadsShown:
    """Downloads on nodes, as far as there is something to do or to wait for."""

    orphans: tuple[OrphanView, ...]
    fetches: tuple[FetchView, ...] = ()


_BY_CODE: Mapping[str, type[LlmgwError]] = {
    error.code: error
    for error in (NoControlPlane, DeadlinePassed, NotConnected, Standby, Unreachable)
}
_BY_KIND: Mapping[str, type[LlmgwError]] = {
    str(error.kind): error
    for error in (
        Invalid,
        Unauthenticated,
        Denied,
        Unknown,
        Conflict,
        Exhausted,
        Unavailable,
        Internal,
    )
}


@dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """What was answered: the document as it came, for programs, and its meaning."""

    document: Any
    value: _T


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What came of checking an engine on one node, a deed for each of its programs."""

    node_id: str
    engine: str
    is_good: bool
    programs: tuple[Deed, ...]


class AdminClient:
    """One admin address; a context manager."""

    def __init__(
        self,
        *,
        url: str,
        timeout_s: float | None = None,
        token: str = "",
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``url`` is scheme, host and port; nothing is sent yet.

        ``timeout_s`` bounds every answer; without it each question has a bound of its own.
        ``remark`` is told once what one should know beside the answers.
        """
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._remark = remark
        self._remarked = ""
        who = {ACTOR_HEADER: _user(), ORIGIN_HEADER: "cli"}
        if token:
            who["authorization"] = f"Bearer {token}"
        self._http = httpx.Client(trust_env=False, headers=who)

    def __enter__(self) -> Self:
        """Nothing to open: the first question dials."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._http.close()

    def status(self) -> Answer[StatusView]:
        """The fleet on one page."""
        document = self._ask("status")
        return Answer(document, self._read(document, TypeAdapter(StatusView)))

    def nodes(self, **filters: str | None) -> Answer[tuple[NodeView, ...]]:
        """The nodes that pass the filters."""
        document = self._ask("nodes", filters)
        return Answer(
            document, self._read(document.get("nodes"), TypeAdapter(tuple[NodeView, ...]))
        )

    def node(self, node_id: str) -> Answer[NodeView]:
        """One node; ``Unknown`` when none of that name has registered."""
        document = self._ask(f"nodes/{_part(node_id)}")
        return Answer(document, self._read(document, TypeAdapter(NodeView)))

    def set_node_state(self, node_id: str, *, target: NodeTarget, reason: str) -> Answer[NodeView]:
        """Cordon, drain or free a node; the node afterwards."""
        body = {"target": str(target), "reason": reason}
        document = self._ask(f"nodes/{_part(node_id)}/state", body=body)
        return Answer(document, self._read(document, TypeAdapter(NodeView)))

    def roll(self, model: str, *, may_interrupt: bool) -> Answer[ModelView]:
        """Have replicas follow their model's profile; the model afterwards."""
        body = {"may_interrupt": may_interrupt}
        document = self._ask(f"models/{_part(model)}/roll", body=body)
        return Answer(document, self._read(document, TypeAdapter(ModelView)))

    def refusals(self, **filters: str | None) -> Answer[tuple[RefusalView, ...]]:
        """Whose stream was refused or ended."""
        document = self._ask("refusals", filters)
        rows = document.get("refusals")
        return Answer(document, self._read(rows, TypeAdapter(tuple[RefusalView, ...])))

    def downloads(self, **filters: str | None) -> Answer[DownloadsShown]:
        """Downloads that no model names, and those under way."""
        document = self._ask("weights", filters)
        return Answer(document, self._read(document, TypeAdapter(DownloadsShown)))

    def collect_weights(self, *, node_id: str | None) -> Answer[tuple[RemovalView, ...]]:
        """Ask nodes to remove downloads that no model names, and wait for what they say."""
        document = self._ask(
            "weights/collect", body={"node_id": node_id}, timeout_s=COLLECT_TIMEOUT_S
        )
        rows = document.get("removals")
        return Answer(document, self._read(rows, TypeAdapter(tuple[RemovalView, ...])))

    def models(self, **filters: str | None) -> Answer[tuple[ModelView, ...]]:
        """The catalog entries that pass the filters."""
        document = self._ask("models", filters)
        return Answer(
            document, self._read(document.get("models"), TypeAdapter(tuple[ModelView, ...]))
        )

    def model(self, name: str) -> Answer[ModelView]:
        """One catalog entry; ``Unknown`` when there is no such."""
        document = self._ask(f"models/{_part(name)}")
        return Answer(document, self._read(document, TypeAdapter(ModelView)))

    def replicas(self, **filters: str | None) -> Answer[tuple[ReplicaView, ...]]:
        """The replicas that pass the filters."""
        document = self._ask("replicas", filters)
        rows = document.get("replicas")
        return Answer(document, self._read(rows, TypeAdapter(tuple[ReplicaView, ...])))

    def explain(self, model: str) -> Answer[PlacementView]:
        """Why a model runs where it does, or nowhere."""
        document = self._ask(f"models/{_part(model)}/placement")
        return Answer(document, self._read(document, TypeAdapter(PlacementView)))

    def plan(self) -> Answer[PlanView]:
        """What the next pass would do."""
        document = self._ask("plan", timeout_s=AHEAD_TIMEOUT_S)
        return Answer(document, self._read(document, TypeAdapter(PlanView)))

    def what_if(
        self, supposed: Supposed, *, name: str, definition: Mapping[str, object] | None
    ) -> Answer[OutlookView]:
        """What would come of a change; ``Unknown`` node or model, ``Invalid`` definition."""
        body = {"supposed": str(supposed), "name": name, "definition": definition}
        document = self._ask("plan/what-if", body=body, timeout_s=AHEAD_TIMEOUT_S)
        return Answer(document, self._read(document, TypeAdapter(OutlookView)))

    def support_bundle(self, *, passes: int) -> bytes:
        """What somebody who helps has to see, as a file."""
        response = self._answered(
            "support-bundle", {"passes": str(passes)}, body=None, timeout_s=AHEAD_TIMEOUT_S
        )
        if not response.is_success:
            self._document(response)
        return response.content

    def logs(self, node_id: str, *, source: str, lines: int) -> Answer[LogTail]:
        """The end of one log of a node."""
        asked = {"source": source, "lines": str(lines)}
        document = self._ask(f"nodes/{_part(node_id)}/logs", asked)
        return Answer(document, self._read(document, TypeAdapter(LogTail)))

    def check_engine(self, node_id: str, *, engine: str) -> Answer[EngineAnswer]:
        """Have a node ask an engine's programs for their options, which may take minutes."""
        path = f"nodes/{_part(node_id)}/engine-check"
        document = self._ask(path, body={"engine": engine}, timeout_s=CHECK_TIMEOUT_S)
        return Answer(document, self._read(document, TypeAdapter(EngineAnswer)))

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | None] | None = None,
        body: Mapping[str, object] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The document that a route below ``/api/v1`` answers; our errors as they are raised.

        Empty where it only says that it was done.
        """
        answer = self._answered(path, params, body=body, timeout_s=timeout_s, method=method)
        return {} if answer.status_code == httpx.codes.NO_CONTENT else self._document(answer)

    def stream(
        self, path: str, *, params: Mapping[str, str | None], timeout_s: float
    ) -> Iterator[str]:
        """The text that a route answers, as it comes; our errors as they are raised."""
        asked = {k: v for k, v in params.items() if v is not None}
        bound_s = self._timeout_s or timeout_s
        url = f"{self._url}/api/v1/{path}"
        try:
            with self._http.stream("GET", url, params=asked, timeout=bound_s) as response:
                if not response.is_success:
                    response.read()
                    self._document(response)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise Unreachable(
                f"the control plane at {self._url} did not answer to the end: {error}"
            ) from error

    def read(self, rows: object, shape: TypeAdapter[_T]) -> _T:
        """What an answer means; ``Internal`` where this version does not know its shape."""
        return self._read(rows, shape)

    def _ask(
        self,
        path: str,
        filters: Mapping[str, str | None] | None = None,
        *,
        body: Mapping[str, object] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer to a question, or to an order where there is a ``body``."""
        return self._document(self._answered(path, filters, body=body, timeout_s=timeout_s))

    def _answered(
        self,
        path: str,
        filters: Mapping[str, str | None] | None,
        *,
        body: Mapping[str, object] | None,
        timeout_s: float | None,
        method: str = "",
    ) -> httpx.Response:
        """What is answered, by the leader where a standby was asked to change something."""
        params = {k: v for k, v in (filters or {}).items() if v is not None}
        method = method or ("GET" if body is None else "POST")
        bound_s = self._timeout_s or timeout_s or ANSWER_TIMEOUT_S
        response = self._sent(method, path, params=params, body=body, bound_s=bound_s)
        leader = leaders.leader_to_ask(response, asked=self._url)
        if leader:
            self._tell(f"{self._url} is a standby: asking the leader at {leader}")
            self._url = leader
            response = self._sent(method, path, params=params, body=body, bound_s=bound_s)
        self._tell(leaders.remark(response.headers, asked=self._url))
        return response

    def _tell(self, remark: str) -> None:
        if remark and remark != self._remarked:
            self._remarked = remark
            self._remark(remark)

    def _sent(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        body: Mapping[str, object] | None,
        bound_s: float,
    ) -> httpx.Response:
        url = f"{self._url}/api/v1/{path}"
        try:
            return self._http.request(method, url, params=params, json=body, timeout=bound_s)
        except httpx.TimeoutException as error:
            raise Unreachable(
                f"the control plane at {self._url} did not answer within {bound_s:g} s"
            ) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Invalid(
                f"{self._url!r} is no admin address: write http://HOST:PORT ({error})"
            ) from error
        except httpx.TransportError as error:
            raise Unreachable(
                f"no control plane answers at {self._url} ({error}): start one with 'llmgw server' "
                "or 'llmgw up', or name its admin address with --admin or LLMGW_CTL_URL"
            ) from error

    def _document(self, response: httpx.Response) -> Any:
        try:
            document = response.json()
        except ValueError as error:
            raise self._foreign() from error
        if response.is_success and isinstance(document, dict):
            return document
        match document:
            case {"error": {"code": str(code), "kind": str(kind), "message": str(message)} as body}:
                raise self._failure(code=code, kind=kind, message=_whole(message, body))
        raise self._foreign()

    def _failure(self, *, code: str, kind: str, message: str) -> LlmgwError:
        if code == NoControlPlane.code:
            return NoControlPlane(
                f"the server at {self._url} only routes, there is no control plane here: "
                "name the admin address of one with --admin or LLMGW_CTL_URL"
            )
        return _BY_CODE.get(code, _BY_KIND.get(kind, Internal))(message)

    def _foreign(self) -> Unreachable:
        return Unreachable(
            f"{self._url} answers, but not as an admin API: is that the admin address "
            "(http://127.0.0.1:9090 by default) or the one for clients?"
        )

    def _read(self, rows: object, shape: TypeAdapter[_T]) -> _T:
        try:
            return shape.validate_python(rows)
        except ValidationError as error:
            raise Internal(
                f"the server at {self._url} answers in a shape that this llmgw does not know; "
                f"use the version of the server ({error.error_count()} differences)"
            ) from error


def _user() -> str:
    """Who runs this; the number of a user without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _part(name: str) -> str:
    """One part of a path, whatever was typed."""
    return quote(name, safe="")


def _whole(message: str, body: Mapping[str, Any]) -> str:
    """The message with the details, each on a line of its own, where there are any."""
    details = [f"  {d.get('path')}: {d.get('problem')}" for d in body.get("details", ())]
    return "\n".join([message, *details])
