"""What can be set of how the gateway carries a request: attempts, breakers, bounds, affinity.

A part of ``config.settings``, which declares the whole; the gateway reads these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmgw.config.declaring import MIB, Bytes, FieldName, Seconds, setting


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How often and how long a request is tried before its first byte."""

    max_attempts: int = setting(
        5,
        "Endpoints tried for one request before the client gets an error.",
        at_least=1,
        at_most=20,
    )
    deadline_s: Seconds = setting(
        600.0, "No new attempt begins later than this after the request came.", at_least=1
    )
    dial_timeout_s: Seconds = setting(
        10.0, "How long connecting to an endpoint may take.", at_least=0.1
    )
    response_timeout_s: Seconds = setting(
        1800.0, "How long an endpoint may take to begin its answer; 0 means no bound.", at_least=0
    )


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When a failing endpoint is left alone, and for how long."""

    failure_threshold: int = setting(
        3, "Failures in a row after which an endpoint gets no more requests.", at_least=1
    )
    open_s: Seconds = setting(
        5.0, "How long it is left alone at first; doubles with each further failure.", at_least=0.1
    )
    open_max_s: Seconds = setting(60.0, "The longest that it is left alone.", at_least=0.1)


@dataclass(frozen=True, slots=True)
class IdleByProfileSettings:
    """How long an answer may bring nothing, by how its model is used."""

    chat: Seconds | None = setting(None, "Unset means: as all.", at_least=0)
    batch: Seconds | None = setting(None, "Unset means: as all.", at_least=0)
    long_context: Seconds | None = setting(None, "Unset means: as all.", at_least=0)
    debug: Seconds | None = setting(None, "Unset means: as all.", at_least=0)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How answers are passed on while they come."""

    write_timeout_s: Seconds = setting(
        60.0, "A client that takes no byte for this long is disconnected.", at_least=1
    )
    buffer_bytes: Bytes = setting(
        262144,
        "Bytes held for one slow client before its engine is made to wait.",
        at_least=4096,
    )
    idle_suspect_s: Seconds = setting(
        60.0,
        "An answer that has begun and brings nothing for this long is cut if its endpoint makes no "
        "progress; slow work goes on.",
        at_least=1,
    )
    idle_hard_s: Seconds = setting(
        900.0, "And cut for this long in any case; 0 means no such bound.", at_least=0
    )
    idle_hard_by_profile: IdleByProfileSettings = setting(
        IdleByProfileSettings(), "`idle_hard_s` for models of one `routing_profile`."
    )


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """What a client may send."""

    max_body_bytes: Bytes = setting(
        32 * MIB, "The largest request body; above it the answer is 413.", at_least=1024
    )
    body_timeout_s: Seconds = setting(
        60.0, "How long a client may take to send its request body.", at_least=1
    )
    buffered_bytes_per_worker: Bytes = setting(
        512 * MIB, "Request bodies that one worker holds at a time; above it 503.", at_least=MIB
    )
    max_header_bytes: Bytes = setting(
        65536, "The largest request head; above it the answer is 431.", at_least=4096
    )


@dataclass(frozen=True, slots=True)
class PrefixSettings:
    """Sending a request where the beginning of its prompt is likely cached."""

    enabled: bool = setting(
        False,
        "Follow prefixes; pays where all prompts in use do not fit one engine's cache.",
    )
    min_match: Bytes = setting(
        64, "The shortest common beginning that is followed; shorter ones are chance.", at_least=32
    )
    match_ratio: float = setting(
        0.3, "The share of the prompt's head that must be common.", at_least=0, at_most=1
    )
    balance_abs: float = setting(
        8.0,
        "A cache is given up for balance when its endpoint has more requests above the least "
        "loaded one than this, and `balance_rel` holds as well.",
        at_least=0,
    )
    balance_rel: float = setting(
        1.5, "And when it has more than this many times the requests of that one.", at_least=1
    )
    ttl: Seconds = setting(
        600.0,
        "How long an answered prompt is remembered; engines forget by themselves.",
        at_least=1,
    )
    max_nodes: int = setting(
        100_000, "Beginnings that one worker remembers; the oldest go first.", at_least=16
    )
    head_bytes: Bytes = setting(
        2048,
        "How much of a prompt is compared; more where long system prompts are shared.",
        at_least=64,
        at_most=MIB,
    )


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """How the gateway carries a request."""

    scrape_interval: Seconds = setting(
        2.0,
        "How often each endpoint is asked for its metrics and its health; 0 never asks, and then a "
        "hanging engine is noticed by its requests alone.",
        at_least=0,
    )
    stale_after: Seconds = setting(
        10.0,
        "After so long without metrics an endpoint counts as unknown: second choice.",
        at_least=0.1,
    )
    inject_usage: bool = setting(
        True,
        "Ask engines for the usage of streams whose client did not, and take that chunk out again; "
        "without it their tokens are estimated.",
    )
    events_file: str = setting(
        "",
        "File to which each step of each request is appended as a line of JSON, without any text; "
        "unset means none.",
    )
    receipts_bytes: Bytes = setting(
        MIB,
        "Memory of a worker for receipts of requests (`GET /v1/requests/{id}`), about 150 bytes "
        "each; 0 keeps none.",
        at_least=0,
    )
    default_profile: Literal["chat", "batch", "long-context", "debug"] = setting(
        "chat", "How endpoints are weighed for models that name no `routing_profile`."
    )
    session_header: FieldName = setting(
        "x-session-id",
        "The request header whose value keeps requests at one endpoint; without it the body's "
        "`prompt_cache_key` and then `user` do.",
    )
    check_capabilities: bool = setting(
        False,
        "Refuse tools and images that a model does not name among its `capabilities`; a model that "
        "names none is always tried.",
    )
    session_load_factor: float = setting(
        1.25,
        "A session leaves an endpoint that has more than this many times its share of the load.",
        at_least=1,
    )
    target_waiting: float = setting(
        4.0,
        "Requests waiting at an engine that count as full, as long as none was measured.",
        at_least=0.1,
    )
    kv_ceiling: float = setting(
        0.9,
        "The share of an engine's KV cache in use that counts as full.",
        at_least=0.05,
        at_most=1,
    )
    default_capacity: float = setting(
        8.0,
        "Requests that an endpoint of weight 1 is taken to run at a time until more is known.",
        at_least=1,
    )
    prefix: PrefixSettings = setting(PrefixSettings(), "Prompts that begin alike.")

    dispatch: DispatchSettings = setting(DispatchSettings(), "Attempts before the first byte.")
    breaker: BreakerSettings = setting(BreakerSettings(), "Endpoints that fail.")
    stream: StreamSettings = setting(StreamSettings(), "Answers under way.")
    limits: LimitsSettings = setting(LimitsSettings(), "Bounds of a request.")
