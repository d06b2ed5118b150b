"""Asks a model, through its gateway, the questions of ``ctl tool-check``, one after the other."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from llmgw.cli import tool_verdicts
from llmgw.cli.tool_verdicts import CITY, TOOL, Call, Reply, Verdict
from llmgw.errors import Denied, Invalid, Unknown, Unreachable

ANSWER_TIMEOUT_S = 300.0
"""One answer of a big model that also has other work."""

_MOST_TOKENS = 512
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "The weather in a city now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
_QUESTION = {"role": "user", "content": f"What is the weather in {CITY} now? Use the tool."}
_FOR_JSON = {
    "role": "user",
    "content": f"Answer with a JSON object that has the keys city and country, for {CITY}.",
}
_KEYS = ("city", "country")
_SCHEMA = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in _KEYS},
    "required": list(_KEYS),
    "additionalProperties": False,
}


class _Refused(Exception):
    """The gateway or the engine answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ToolChecks:
    """One model behind one gateway; ``engine`` is its kind where that is known, for advice."""

    def __init__(self, client: httpx.Client, *, model: str, engine: str) -> None:
        """``client`` has the gateway's address, the key and a bound."""
        self._client = client
        self._model = model
        self._engine = engine

    def run(self) -> Iterator[Verdict]:
        """Every question; those that rest on a call of the tool only where there was one."""
        first = self._call("tool call")
        yield first[0]
        if first[1] is not None:
            yield self._asked("answer to the tool", self._spoken, first[1])
        yield self._asked("tool call in a stream", self._streamed)
        yield self._asked("tool that is asked for by name", self._forced)
        yield self._asked("JSON", self._json, {"type": "json_object"}, ())
        wanted = {"name": "place", "schema": _SCHEMA, "strict": True}
        schema = {"type": "json_schema", "json_schema": wanted}
        yield self._asked("JSON of a schema", self._json, schema, _KEYS)

    def _call(self, name: str) -> tuple[Verdict, Call | None]:
        """The verdict on a plain call, and the call where there was a good one."""
        try:
            reply = self._whole(messages=[_QUESTION], tools=_TOOLS, tool_choice="auto")
        except _Refused as error:
            return self._refused(name, error), None
        verdict = tool_verdicts.called(name, reply, engine=self._engine)
        return verdict, reply.calls[0] if verdict.is_good else None

    def _spoken(self, name: str, call: Call) -> Verdict:
        made = {"name": call.name, "arguments": call.arguments}
        messages = [
            _QUESTION,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call.call_id, "type": "function", "function": made}],
            },
            {"role": "tool", "tool_call_id": call.call_id, "content": '{"celsius": 21}'},
        ]
        return tool_verdicts.spoke(name, self._whole(messages=messages, tools=_TOOLS))

    def _streamed(self, name: str) -> Verdict:
        reply = self._stream(messages=[_QUESTION], tools=_TOOLS, tool_choice="auto")
        return tool_verdicts.called(name, reply, engine=self._engine)

    def _forced(self, name: str) -> Verdict:
        choice = {"type": "function", "function": {"name": TOOL}}
        reply = self._whole(messages=[_QUESTION], tools=_TOOLS, tool_choice=choice)
        return tool_verdicts.called(name, reply, engine=self._engine, is_forced=True)

    def _json(self, name: str, response_format: Mapping[str, Any], keys: Sequence[str]) -> Verdict:
        reply = self._whole(messages=[_FOR_JSON], response_format=response_format)
        return tool_verdicts.is_json(name, reply, keys=keys)

    def _asked(self, name: str, question: Callable[..., Verdict], *given: object) -> Verdict:
        try:
            return question(name, *given)
        except _Refused as error:
            return self._refused(name, error)

    def _refused(self, name: str, error: _Refused) -> Verdict:
        return tool_verdicts.refused(
            name, status=error.status, text=error.text, engine=self._engine
        )

    def _whole(self, **asked: Any) -> Reply:
        response = self._send(asked)
        with _reading(response):
            response.read()
            return tool_verdicts.whole(response.json())

    def _stream(self, **asked: Any) -> Reply:
        response = self._send({**asked, "stream": True})
        with _reading(response):
            lines = [line.removeprefix("data: ") for line in _data(response)]
            events = [json.loads(line) for line in lines if line != "[DONE]"]
            return tool_verdicts.streamed(events, is_done=lines[-1:] == ["[DONE]"])

    def _send(self, asked: Mapping[str, Any]) -> httpx.Response:
        body = {"model": self._model, "temperature": 0, "max_tokens": _MOST_TOKENS, **asked}
        request = self._client.build_request("POST", "/v1/chat/completions", json=body)
        try:
            response = self._client.send(request, stream=True)
        except httpx.UnsupportedProtocol as error:
            raise Invalid(
                f"{self._client.base_url} is no address: write http://HOST:PORT"
            ) from error
        except httpx.TransportError as error:
            raise Unreachable(
                f"no gateway answers at {self._client.base_url} ({error}): name it with --url"
            ) from error
        if not response.is_success:
            response.read()
            self._check_asked_at_all(response)
            raise _Refused(response.status_code, response.text)
        return response

    def _check_asked_at_all(self, response: httpx.Response) -> None:
        """A refusal that says nothing of tools is no verdict on them."""
        base = self._client.base_url
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Unknown(
                f"{base} serves no model {self._model!r}; "
                "'llmgw ctl models' lists those that there are"
            )
        if response.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise Denied(
                f"{base} answers {response.status_code}: give a key that it takes with --api-key"
            )


@contextlib.contextmanager
def _reading(response: httpx.Response) -> Iterator[None]:
    """Close it afterwards; an answer that breaks off or is no JSON is as good as a refused one."""
    try:
        yield
    except httpx.TransportError as error:
        raise _Refused(response.status_code, f"the answer broke off: {error!r}") from error
    except ValueError as error:
        raise _Refused(response.status_code, f"the answer is no JSON: {error}") from error
    finally:
        response.close()


def _data(response: httpx.Response) -> Iterator[str]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield line.strip()
