"""Say why a request got no engine's answer: which refusal, and when to come back; pure.

``dispatch`` asks it when there is nobody to send to, and when its time is over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from llmgw.domain.routes import ModelState, RoutedModel
from llmgw.gateway.breaker import Breaker
from llmgw.gateway.replies import Code, Refusal

RETRY_AFTER_S = 5
"""When to come back where nothing better is known."""

_LOADING_RETRY_AFTER_S = 10


class Owner(Protocol):
    """What is to be known of an endpoint that serves the model."""

    is_ready: bool
    breaker: Breaker


def nobody(model: RoutedModel, owners: Sequence[Owner], *, now: float, epoch_at: float) -> Refusal:
    """Why a request was sent to nobody; the clock of ``now`` began at ``epoch_at``."""
    ready = [one for one in owners if one.is_ready]
    if ready:
        opens_in_s = min(one.breaker.opens_again_in_s(now) for one in ready)
        return Refusal(Code.NO_ENDPOINTS, retry_after_s=max(math.ceil(opens_in_s), 1))
    if model.state is ModelState.LOADING:
        return loading(model, wall=epoch_at + now)
    if model.state is ModelState.FAILED:
        return Refusal(
            Code.LOAD_FAILED,
            f"The model does not start: {model.failure}" if model.failure else "",
            retry_after_s=model.retry_after_s or RETRY_AFTER_S,
        )
    return Refusal(Code.NO_ENDPOINTS, retry_after_s=model.retry_after_s or RETRY_AFTER_S)


def too_long(prompt_tokens: int, most_tokens: int) -> Refusal:
    """The prompt does not fit."""
    message = f"The prompt has about {prompt_tokens} tokens; this model reads {most_tokens}."
    return Refusal(Code.CONTEXT_LENGTH_EXCEEDED, message)


def lacks(model: RoutedModel, capabilities: Sequence[str]) -> Refusal:
    """The request needs what the model says it cannot do."""
    message = f"{model.name} does not do this: {', '.join(capabilities)}."
    return Refusal(Code.UNSUPPORTED_CAPABILITY, message)


def loading(model: RoutedModel, *, wall: float) -> Refusal:
    """An engine of the model is starting; ``wall`` is now, in seconds since 1970."""
    expected_at = model.ready_expected_at
    left_s = 0 if expected_at is None else math.ceil(expected_at - wall)
    eta_s = left_s if left_s > 0 else model.retry_after_s
    message = f"The model is being loaded; come again in about {eta_s} s." if eta_s else ""
    return Refusal(Code.MODEL_LOADING, message, retry_after_s=eta_s or _LOADING_RETRY_AFTER_S)


def too_late(owners: Sequence[Owner]) -> Refusal:
    """The deadline has passed; whether there was anybody left to try makes two codes of it."""
    code = Code.DEADLINE_EXCEEDED if owners else Code.NO_OWNER_RETURNED
    return Refusal(code, retry_after_s=RETRY_AFTER_S)
