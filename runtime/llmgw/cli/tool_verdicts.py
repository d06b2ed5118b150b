"""What an answer to a request with tools, or for JSON, is worth; pure, one verdict a question."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw.domain import tool_parsers

TOOL = "get_weather"
CITY = "Paris"
_MOST_SHOWN = 120
_NO_PARSER = ("tool choice requires", "tool-call-parser", "tool_call_parser")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One question: whether it was answered as it must be, and what is wrong or of note."""

    name: str
    is_good: bool
    detail: str = ""


@dataclass(slots=True)
class Reply:
    """An answer put together: its text, its calls of tools, why it ended, how it came."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    finish_reason: str = ""
    faults: list[str] = field(default_factory=list)
    """What a client's library would stumble over in the pieces of a stream."""


@dataclass(slots=True)
class Call:
    """One call of a tool; ``arguments`` as the text that came."""

    call_id: str = ""
    name: str = ""
    arguments: str = ""


def whole(document: Any) -> Reply:
    """The reply of an answer in one piece; an empty one when it has no such shape."""
    with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
        choice = document["choices"][0]
        message = choice["message"]
        calls = [
            Call(
                call_id=str(one.get("id") or ""),
                name=str(one["function"]["name"]),
                arguments=str(one["function"].get("arguments") or ""),
            )
            for one in message.get("tool_calls") or ()
        ]
        return Reply(
            text=str(message.get("content") or ""),
            calls=calls,
            finish_reason=str(choice.get("finish_reason") or ""),
        )
    return Reply(faults=["the answer has no message"])


def streamed(events: Iterable[Mapping[str, Any]], *, is_done: bool) -> Reply:
    """The reply of a stream's events, put together as clients do: by index, name first."""
    reply = Reply()
    for event in events:
        for choice in event.get("choices") or ():
            _take(reply, choice)
    if not is_done:
        reply.faults.append("the stream ends without [DONE]")
    return reply


def _take(reply: Reply, choice: Mapping[str, Any]) -> None:
    delta = choice.get("delta") or {}
    reply.text += str(delta.get("content") or "")
    reply.finish_reason = str(choice.get("finish_reason") or "") or reply.finish_reason
    for piece in delta.get("tool_calls") or ():
        _add(reply, piece)


def _add(reply: Reply, piece: Mapping[str, Any]) -> None:
    index = piece.get("index")
    if not isinstance(index, int) or not 0 <= index <= len(reply.calls):
        reply.faults.append(f"a piece of a call has the index {index!r}")
        return
    function = piece.get("function") or {}
    if index == len(reply.calls):
        reply.calls.append(Call())
        if not function.get("name"):
            reply.faults.append("the first piece of a call has no name")
    call = reply.calls[index]
    call.call_id = call.call_id or str(piece.get("id") or "")
    call.name += str(function.get("name") or "")
    call.arguments += str(function.get("arguments") or "")


def refused(name: str, *, status: int, text: str, engine: str) -> Verdict:
    """A request that was answered with an error."""
    if any(words in text for words in _NO_PARSER):
        detail = (
            "the engine was started without a parser of tools: set --tool-call-parser in the "
            "profile's args"
        )
        if engine == "llamacpp":
            detail = "llama.cpp was started without --jinja, which reads tools"
        return Verdict(name, is_good=False, detail=detail)
    return Verdict(name, is_good=False, detail=f"answered {status}: {_short(text)}")


def called(name: str, reply: Reply, *, engine: str, is_forced: bool = False) -> Verdict:
    """Whether the tool was called as it must be; of a call in the text, which parser reads it."""
    fault = _call_fault(reply, engine=engine, is_forced=is_forced)
    return Verdict(name, is_good=not fault, detail=fault or _spoken(reply.calls[0]))


def _call_fault(reply: Reply, *, engine: str, is_forced: bool) -> str:
    writing = tool_parsers.recognise(reply.text)
    if writing is not None:
        return f"the call stands in the text: {tool_parsers.advice(engine, writing)}"
    if not reply.calls:
        said = _short(reply.text)
        return reply.faults[0] if reply.faults else f"no tool was called, it said {said!r}"
    call = reply.calls[0]
    if call.name != TOOL:
        return f"it called {_short(call.name)!r}, which was not offered"
    if not _arguments(call):
        return f"its arguments are no JSON object with a city: {_short(call.arguments)}"
    if reply.faults:
        return reply.faults[0]
    if reply.finish_reason != "tool_calls" and not is_forced:
        return f"finish_reason is {reply.finish_reason!r} and not 'tool_calls'"
    return ""


def spoke(name: str, reply: Reply) -> Verdict:
    """Whether it answers in words once it was told what the tool said."""
    if reply.calls:
        return Verdict(name, is_good=False, detail="it calls the tool again instead of answering")
    is_good = bool(reply.text.strip())
    return Verdict(name, is_good=is_good, detail="" if is_good else "it answers nothing")


def is_json(name: str, reply: Reply, *, keys: Iterable[str] = ()) -> Verdict:
    """Whether the text is a JSON object, with exactly these keys where some are named."""
    found: Any = None
    with contextlib.suppress(ValueError):
        found = json.loads(reply.text)
    if not isinstance(found, dict):
        return Verdict(name, is_good=False, detail=f"no JSON object: {_short(reply.text)}")
    wanted = set(keys)
    if wanted and set(found) != wanted:
        return Verdict(name, is_good=False, detail=f"it has the keys {', '.join(sorted(found))}")
    return Verdict(name, is_good=True)


def _arguments(call: Call) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        found = json.loads(call.arguments)
        if isinstance(found, dict) and "city" in found:
            return found
    return None


def _spoken(call: Call) -> str:
    return _short(f"{call.name}({call.arguments})")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST_SHOWN else f"{words[:_MOST_SHOWN]}…"
