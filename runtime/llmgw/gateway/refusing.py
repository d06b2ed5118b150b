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


def nobody(model: RoutedModel, owners: Sequence[Owner], *, now: float) -> Refusal:
    """Why a request was sent to nobody."""
    ready = [one for one in owners if one.is_ready]
    if ready:
        opens_in_s = min(one.breaker.opens_again_in_s(now) for one in ready)
        return Refusal(Code.NO_ENDPOINTS, retry_after_s=max(math.ceil(opens_in_s), 1))
    if model.state is ModelState.LOADING:
        return loading(model)
    if model.state is ModelState.FAILED:
        return Refusal(
            Code.LOAD_FAILED,
            f"The model does not start: {model.failure}" if model.failure else "",
            retry_after_s=model.retry_after_s or RETRY_AFTER_S,
        )
    return Refusal(Code.NO_ENDPOINTS, retry_after_s=model.retry_after_s or RETRY_AFTER_S)


def loading(model: RoutedModel) -> Refusal:
    """An engine of the model is starting."""
    return Refusal(Code.MODEL_LOADING, retry_after_s=model.retry_after_s or _LOADING_RETRY_AFTER_S)


def too_late(owners: Sequence[Owner]) -> Refusal:
    """The deadline has passed; whether there was anybody left to try makes two codes of it."""
    code = Code.DEADLINE_EXCEEDED if owners else Code.NO_OWNER_RETURNED
    return Refusal(code, retry_after_s=RETRY_AFTER_S)
