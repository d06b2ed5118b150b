"""The legal shapes of the names that people and machines give to things."""

from __future__ import annotations

import re

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""A catalog name or alias; ``/`` is left to names of external peers."""

NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
"""A node id: equals hostname, certificate CN and VM name."""

RESERVED_NODE_NAMES = frozenset({"agent", "all", "ca", "control-plane", "localhost", "mirror"})
"""Names that certificates, files and inventories of a site use for something that is no node."""

GATEWAY_PREFIX = "gateway-"
"""What the certificate of a gateway on another host begins with; no node is called so."""

SHARD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A shard or replica id; it becomes part of a file name, so nothing else is let in."""

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""A request id that a client may choose."""

_NOT_PREFIX = re.compile(r"[^a-z0-9-]+")


def gateway_certificate(name: str) -> str:
    """The name in the certificate of the gateway ``name``."""
    return f"{GATEWAY_PREFIX}{name}"


def may_name_node(name: str) -> bool:
    """Whether a node may be called so."""
    return bool(NODE_NAME.fullmatch(name)) and not is_of_gateway(name)


def is_gateway_name(name: str) -> bool:
    """Whether a gateway may be called so."""
    return bool(NODE_NAME.fullmatch(name) and NODE_NAME.fullmatch(gateway_certificate(name)))


def is_of_gateway(name: str) -> bool:
    """Whether a name in a certificate is that of a gateway."""
    return name.lower().startswith(GATEWAY_PREFIX)


def replica_id(*, model: str, token: str) -> str:
    """``llama-9f31c2aa``: a readable part of the model name and a random ``token``."""
    prefix = _NOT_PREFIX.sub("-", model.lower()).strip("-")[:40].strip("-")
    return f"{prefix or 'model'}-{token}"


def shard_id(*, replica: str, rank: int) -> str:
    """The id of one shard of a replica, ``llama-9f31c2aa.0``."""
    return f"{replica}.{rank}"


def replica_of(shard: str) -> str:
    """The id of the replica that a shard's id was made for."""
    return shard.rpartition(".")[0]
