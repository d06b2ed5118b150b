"""Reads the OpenAI request bodies that the simulated engine serves into small values."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any

from llmgw.errors import Invalid
from llmgw.simulator import words

_DEFAULT_TOKENS = 16


class Shape(enum.StrEnum):
    """Which of the two generating routes was asked."""

    CHAT = "chat"
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for text."""

    shape: Shape
    model: str
    prompt_tokens: int
    max_tokens: int | None
    ignore_eos: bool
    is_stream: bool
    has_usage: bool
    """Whether a stream ends with a chunk that carries usage."""

    def length(self, own: int | None) -> tuple[int, str]:
        """Tokens of the answer and why it ends; ``own`` is where the engine ends by itself."""
        bound = self.max_tokens or own or _DEFAULT_TOKENS
        if own is None or self.ignore_eos:
            return bound, "length" if self.max_tokens else "stop"
        return min(own, bound), "stop" if own <= bound else "length"


@dataclass(frozen=True, slots=True)
class EmbeddingAsk:
    """One request for vectors."""

    model: str
    texts: tuple[str, ...]
    dimensions: int
    is_base64: bool


def generation(shape: Shape, body: bytes) -> Ask:
    """Read a chat or completion request; ``Invalid`` says what is wrong with it."""
    fields = _object(body)
    prompt = _conversation(fields) if shape is Shape.CHAT else _prompt(fields.get("prompt"))
    if fields.get("n") not in (None, 1):
        raise Invalid("this engine makes one choice only; leave out n")
    options = fields.get("stream_options")
    return Ask(
        shape=shape,
        model=_model(fields),
        prompt_tokens=prompt,
        max_tokens=_bound(fields),
        ignore_eos=fields.get("ignore_eos") is True,
        is_stream=fields.get("stream") is True,
        has_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def embedding(body: bytes) -> EmbeddingAsk:
    """Read an embeddings request; ``Invalid`` says what is wrong with it."""
    fields = _object(body)
    dimensions = fields.get("dimensions", 64)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= 4096:
        raise Invalid("dimensions must be a whole number between 1 and 4096")
    return EmbeddingAsk(
        model=_model(fields),
        texts=_texts(fields.get("input")),
        dimensions=dimensions,
        is_base64=fields.get("encoding_format") == "base64",
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise Invalid("the body is not JSON") from error
    if not isinstance(fields, dict):
        raise Invalid("the body must be a JSON object")
    return fields


def _model(fields: dict[str, Any]) -> str:
    model = fields.get("model", "")
    if not isinstance(model, str):
        raise Invalid("model must be a string")
    return model


def _bound(fields: dict[str, Any]) -> int | None:
    bound = fields.get("max_completion_tokens")
    if bound is None:
        bound = fields.get("max_tokens")
    if bound is not None and (not isinstance(bound, int) or bound < 1):
        raise Invalid("max_tokens must be a whole number of 1 or more")
    return bound


def _conversation(fields: dict[str, Any]) -> int:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Invalid("messages must be a list with at least one message")
    if not all(isinstance(m, dict) for m in messages):
        raise Invalid("each message must be an object")
    return sum(words.count(_content(m.get("content"))) for m in messages)


def _content(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    raise Invalid("content must be a string or a list of parts")


def _prompt(prompt: object) -> int:
    texts = _texts(prompt)
    if len(texts) != 1:
        raise Invalid("this engine takes one prompt a request")
    return words.count(texts[0])


def _texts(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list) and given:
        if all(isinstance(t, str) for t in given):
            return tuple(given)
        if all(isinstance(t, int) for t in given):
            return (" ".join(map(str, given)),)
        if all(isinstance(t, list) for t in given):
            return tuple(" ".join(map(str, t)) for t in given)
    raise Invalid("the text must be a string, a list of strings, or token ids")
