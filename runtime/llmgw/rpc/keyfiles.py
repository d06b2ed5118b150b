"""Writes keys and certificates so that nobody else ever reads a key and no file is half there.

``authority`` and ``enrolment`` call it; it knows files and not what certificates mean.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from llmgw.errors import Conflict, Invalid
from llmgw.kit import ids
from llmgw.rpc import certificates


def own_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey, bool]:
    """The key at ``path``, made if there is none; whether it was there before."""
    if path.exists():
        return load_key(path), True
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write(path, pem, mode=0o600, may_replace=False)
    return key, False


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """An ECDSA key from a file in PEM form; ``Unknown`` or ``Invalid`` with the path."""
    try:
        key = load_pem_private_key(certificates.read_bytes(path), password=None)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{path}: holds no usable private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{path}: is no ECDSA key; move it away and issue again")
    return key


def make_directory(path: Path, *, mode: int) -> None:
    """A folder and those above it; one that is there stays as it is."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"{path}: cannot be made: {error.strerror}") from error


def write(path: Path, content: bytes, *, mode: int, may_replace: bool = True) -> None:
    """Whole or not at all, and never readable to more people than ``mode`` says."""
    part = path.with_name(f".{path.name}.{ids.token()}")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if may_replace:
            part.replace(path)
        else:
            path.hardlink_to(part)
    except FileExistsError as error:
        raise Conflict(f"{path} was made by somebody else in this moment; try again") from error
    except OSError as error:
        raise Invalid(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
