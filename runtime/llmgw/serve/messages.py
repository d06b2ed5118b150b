"""What server and worker say to each other over a link, and how it is written in bytes.

Both ends are of one version (a worker of another version is replaced, not talked to), so only
``Hello`` must be understood across versions: fields are only ever added to it, with defaults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from llmgw.config.carrying import RouterSettings
from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.config.settings import GatewaySettings, LogSettings
from llmgw.domain.pricing import FREE, Price
from llmgw.domain.principals import Principal
from llmgw.domain.routes import RouteTable
from llmgw.kit.metrics import Sample


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """How a worker asks for keys, limits and charges them."""

    cache_ttl_s: float
    negative_ttl_s: float
    stale_ttl_s: float
    default_tokens: int
    usage_dir: str
    """Where it keeps its account until it is in the store."""
    limits_board: str
    prices: Mapping[str, Price] = field(default_factory=dict)
    default_price: Price = FREE


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The part of the server's settings that a worker needs."""

    router: RouterSettings = RouterSettings()
    gateway: GatewaySettings = GatewaySettings()
    log: LogSettings = LogSettings()
    admission: AdmissionSettings = AdmissionSettings()
    on_demand: OnDemandSettings = OnDemandSettings()
    access: AccessSettings | None = None
    """Absent where nobody is asked for a key."""

    def digest(self) -> str:
        """Sixteen hex digits that change with any setting; a worker with others is replaced."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """From a worker to whoever takes the link; its listening socket comes along as a descriptor."""

    pid: int
    version: str
    digest: str = ""
    is_serving: bool = False
    board: str = ""
    row: int = -1


class Configure(msgspec.Struct, tag="configure", frozen=True):
    """To a fresh worker: how to serve, and which row of which board is its own."""

    settings: WorkerSettings
    board: str
    row: int


class Routes(msgspec.Struct, tag="routes", frozen=True):
    """To a worker: what may be served from now on; replaces all earlier tables."""

    table: RouteTable


class Serving(msgspec.Struct, tag="serving", frozen=True):
    """From a worker: it takes connections, with the table of this number."""

    table_number: int


class AskFigures(msgspec.Struct, tag="ask_figures", frozen=True):
    """To a worker: what do you count?"""


class Figures(msgspec.Struct, tag="figures", frozen=True):
    """From a worker: its metrics of this moment, asked for or for the last time before it ends."""

    samples: tuple[Sample, ...]


class Wanted(msgspec.Struct, tag="wanted", frozen=True):
    """From a worker: the models that its requests wait for, all of them."""

    models: frozenset[str]


class AskKey(msgspec.Struct, tag="ask_key", frozen=True):
    """From a worker: whose key has this hash?"""

    key_hash: str


class KeyAnswer(msgspec.Struct, tag="key_answer", frozen=True):
    """To a worker: whose it is, with the slots of its counters on the limits board."""

    key_hash: str
    outcome: Literal["known", "unknown", "unavailable"]
    principal: Principal | None = None
    slots: dict[str, int] = {}


Message = Hello | Configure | Routes | Serving | AskFigures | Figures | Wanted | AskKey | KeyAnswer

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """The message as one packet's body."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """The message of one packet; raises ``msgspec.MsgspecError`` on bytes that are none."""
    message: Message = _decoder.decode(body)
    return message


def subject(message: Message) -> str:
    """What a message is about: a newer one replaces one that still waits to be sent."""
    if isinstance(message, AskKey | KeyAnswer):
        return f"{type(message).__name__} {message.key_hash}"
    return type(message).__name__
