"""Writes the OpenAI-shaped bodies that the simulated engine answers with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from llmgw.simulator import words
from llmgw.simulator.asks import Ask, EmbeddingAsk, Shape

DONE = b"data: [DONE]\n\n"

_OBJECTS = {
    Shape.CHAT: ("chatcmpl", "chat.completion"),
    Shape.COMPLETION: ("cmpl", "text_completion"),
}


@dataclass(frozen=True, slots=True)
class Label:
    """What every body of one answer carries."""

    request_id: str
    created_at: int
    model: str
    fingerprint: str
    """Names the process, so that a test can tell which engine answered."""


def error(message: str, *, kind: str, code: str | int | None = None) -> bytes:
    """An error as OpenAI's clients read it."""
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}})


def model_list(models: tuple[str, ...], *, created_at: int, context_length: int) -> bytes:
    """The answer to ``GET /v1/models``."""
    entries = [
        {
            "id": name,
            "object": "model",
            "created": created_at,
            "owned_by": "llmgw-sim",
            "max_model_len": context_length,
        }
        for name in models
    ]
    return _json({"object": "list", "data": entries})


def whole(ask: Ask, label: Label, *, n_tokens: int, finish_reason: str) -> bytes:
    """A full answer in one body."""
    answer = words.text(n_tokens)
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
    if ask.shape is Shape.CHAT:
        choice["message"] = {"role": "assistant", "content": answer}
    else:
        choice["text"] = answer
    head = _head(ask, label, is_chunk=False)
    return _json({**head, "choices": [choice], "usage": _usage(ask.prompt_tokens, n_tokens)})


def embeddings(ask: EmbeddingAsk, *, model: str) -> bytes:
    """The answer to ``POST /v1/embeddings``."""
    vectors = [words.vector(text, dimensions=ask.dimensions) for text in ask.texts]
    entries = [
        {"object": "embedding", "index": i, "embedding": words.packed(v) if ask.is_base64 else v}
        for i, v in enumerate(vectors)
    ]
    n_tokens = sum(words.count(text) for text in ask.texts)
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return _json({"object": "list", "data": entries, "model": model, "usage": usage})


class Frames:
    """The server-sent events of one streamed answer, with all that repeats written once."""

    __slots__ = ("_after", "_ask", "_before", "_label")

    def __init__(self, ask: Ask, label: Label) -> None:
        """Prepare what every event of this answer begins and ends with."""
        self._ask = ask
        self._label = label
        before, after = self._event([self._choice("\0", None)]).split(b"\\u0000")
        self._before, self._after = before, after

    def opening(self) -> bytes:
        """The event before the first token: a chat names its role, a completion has none."""
        if self._ask.shape is Shape.COMPLETION:
            return b""
        delta = {"role": "assistant", "content": ""}
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def tokens(self, first: int, n_tokens: int) -> bytes:
        """One event a token, beginning with the token at ``first``."""
        return b"".join(
            b"%b%b%b" % (self._before, words.token(i).encode("ascii"), self._after)
            for i in range(first, first + n_tokens)
        )

    def ending(self, *, n_tokens: int, finish_reason: str) -> bytes:
        """The finish reason, usage when it was asked for, and the end mark."""
        last = self._event([self._choice(None, finish_reason)])
        if not self._ask.has_usage:
            return last + DONE
        return last + self._event([], _usage(self._ask.prompt_tokens, n_tokens)) + DONE

    def _choice(self, text: str | None, finish_reason: str | None) -> dict[str, Any]:
        end = {"logprobs": None, "finish_reason": finish_reason}
        if self._ask.shape is Shape.CHAT:
            return {"index": 0, "delta": {} if text is None else {"content": text}, **end}
        return {"index": 0, "text": text or "", **end}

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        body = {**_head(self._ask, self._label, is_chunk=True), "choices": choices}
        if self._ask.has_usage:
            body["usage"] = usage
        return b"data: %b\n\n" % _json(body)


def _head(ask: Ask, label: Label, *, is_chunk: bool) -> dict[str, Any]:
    prefix, name = _OBJECTS[ask.shape]
    return {
        "id": f"{prefix}-{label.request_id}",
        "object": f"{name}.chunk" if is_chunk and ask.shape is Shape.CHAT else name,
        "created": label.created_at,
        "model": label.model,
        "system_fingerprint": label.fingerprint,
    }


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
