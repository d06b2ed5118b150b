"""Opens both ends of the conversation between agents and control plane.

One place for what both ends must agree on: mutual TLS, message size, keepalive.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Protocol

import grpc
from grpc import aio

from llmgw.errors import LlmgwError, Unauthenticated
from llmgw.kit import addresses, binding, logs
from llmgw.rpc import certificates

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
KEEPALIVE_S = 5
"""A ping after so many silent seconds, and as long for its answer: a cut cable is known in 10 s."""
_CLOSE_S = 2.0

_log = logs.get(__name__)

_BOTH_ENDS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_S * 1000),
    # The bound that counts for a lost answer; its default is a minute, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_S * 1000),
    ("grpc.http2.max_pings_without_data", 0),
)
_CLIENT_END = (
    *_BOTH_ENDS,
    # A new channel must not inherit the backoff of an earlier one, nor go through a web proxy.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
_SERVER_END = (
    *_BOTH_ENDS,
    # Else a second server takes half of the connections of the first in silence.
    ("grpc.so_reuseport", 0),
    # Else the agents' keepalive is answered by too_many_pings.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)


class TlsFiles(Protocol):
    """Where the three PEM files of one end lie."""

    @property
    def ca(self) -> str:
        """The authority that signed the other end."""
        ...

    @property
    def cert(self) -> str:
        """This end's certificate."""
        ...

    @property
    def key(self) -> str:
        """The key of the certificate."""
        ...


def check_own_pair(tls: TlsFiles | None, *, name: str, refusal: str, now: float) -> None:
    """``Unauthenticated`` with all that would make a control plane refuse these files.

    ``name`` is what the certificate must name, ``refusal`` how the sentence begins.
    """
    if tls is None:
        return
    problems = certificates.check_own_pair(
        ca=Path(tls.ca), cert=Path(tls.cert), key=Path(tls.key), node_id=name, now=now
    )
    if problems:
        raise Unauthenticated(f"{refusal}: {'; '.join(map(str, problems))}")


def open_channel(target: str, *, tls: TlsFiles | None) -> aio.Channel:
    """A fresh channel to ``host:port``, plaintext without ``tls``; the first call connects it."""
    if tls is None:
        return aio.insecure_channel(target, options=_CLIENT_END)
    ca, cert, key = _contents(tls)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=ca, private_key=key, certificate_chain=cert
    )
    return aio.secure_channel(target, credentials, options=_CLIENT_END)


async def close(channel: aio.Channel) -> None:
    """Close at once, and do not wait for ever: cancelling alone leaves a blocked read behind."""
    try:
        async with asyncio.timeout(_CLOSE_S):
            await channel.close(grace=None)
    except TimeoutError:
        _log.warning("channel_close_slow", within_s=_CLOSE_S)


def make_server() -> aio.Server:
    """A server that listens nowhere yet."""
    return aio.server(options=_SERVER_END)


def bind(server: aio.Server, *, address: str, tls: TlsFiles | None) -> int:
    """Listen on ``host:port`` and return the port; every client must show a certificate.

    Plaintext without ``tls``: whether that may be is the caller's decision. ``AlreadyHeld`` when
    the port is taken, ``Invalid`` for an address that this machine does not have.
    """
    target = f"[::]{address}" if address.startswith(":") else address
    try:
        if tls is None:
            return server.add_insecure_port(target)
        ca, cert, key = _contents(tls)
        credentials = grpc.ssl_server_credentials(
            [(key, cert)], root_certificates=ca, require_client_auth=True
        )
        return server.add_secure_port(target, credentials)
    except RuntimeError as error:
        raise _bind_error(address) from error


def _contents(tls: TlsFiles) -> tuple[bytes, bytes, bytes]:
    ca, cert, key = (certificates.read_bytes(Path(p)) for p in (tls.ca, tls.cert, tls.key))
    return ca, cert, key


def _bind_error(address: str) -> LlmgwError:
    """The reason that gRPC keeps to itself, found by asking the operating system again."""
    at = addresses.parse(address)
    try:
        binding.check(at)
    except LlmgwError as error:
        return error
    return binding.refusal(at, OSError(errno.EADDRINUSE, ""))
