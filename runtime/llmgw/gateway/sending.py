"""Write the request that an endpoint gets in place of the client's.

``dispatch`` calls it for each attempt.  The body goes as it came, byte for byte, unless the engine
knows the model by another name than the client used or has to be asked for the usage of a stream.
"""

from __future__ import annotations

import msgspec

from llmgw.gateway import headers, usage_chunk
from llmgw.gateway.abundance import is_abundant
from llmgw.gateway.describing import rewrite_model
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import Exchange


class BodyUnreadable(ValueError):
    """The body has to be changed and cannot be read whole, though what routing needs could be."""


def request_to(live: LiveEndpoint, exchange: Exchange) -> bytes:
    """Head and body for ``live``; raises ``BodyUnreadable``."""
    name = live.facts.upstream_model or exchange.model_name
    body = exchange.body
    how = exchange.usage_asking
    exchange.is_usage_hidden = how is not None and live.facts.usage_injection
    try:
        if name != exchange.asked_name:
            body = rewrite_model(_changeable(body), name)
        if how is not None and exchange.is_usage_hidden:
            body = usage_chunk.ask(body if how.options is None else _changeable(body), how)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BodyUnreadable from error
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (
        live.request_line(exchange.path),
        headers.from_client(exchange),
        len(body),
        body,
    )


def _changeable(body: bytes) -> bytes:
    """The body, unless it holds more than anybody asks for."""
    if is_abundant(body):
        raise BodyUnreadable
    return body
