"""One HTTP request that fills a part file, going on where an earlier one ended.

``deliveries`` calls it with an open part, as often as it takes; it knows nothing of sources, caches
or other callers.
A part is gone on with only while the content is the same, which either its digest says or the
origin does (RFC 9110 ``If-Range``): a file mixed from two versions would load and answer nonsense.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from llmgw.agent.weights import digests, http_failures
from llmgw.agent.weights.digests import Digest
from llmgw.agent.weights.http_failures import Setback
from llmgw.agent.weights.partials import Partial
from llmgw.agent.weights.remote_files import RemoteFile
from llmgw.domain import weights
from llmgw.errors import Invalid, Unreachable

BUFFER_BYTES = 4 * 1024 * 1024
TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""No bound on the whole: a model may take hours. A silent origin is given up after ``read``."""

_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d+|\*)/(\d{1,18}|\*)")

_RESTARTS = 2

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes so far and the total, which is ``None`` when nobody says it."""

CheckRoom = Callable[[int], None]
"""Called with the bytes that are missing still; raises ``Exhausted`` when the disk lacks them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One file to fill a part with, and whom to tell."""

    client: httpx.AsyncClient
    file: RemoteFile
    headers: Mapping[str, str] = field(repr=False)
    partial: Partial
    on_bytes: OnBytes
    check_room: CheckRoom


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an origin's head means for the part: where its body goes, and how long the whole is."""

    total_bytes: int | None
    is_complete: bool = False
    must_restart: bool = False


@dataclass(frozen=True, slots=True)
class _Ended:
    """How one request ended: well, with a setback, or before its body because the file is other."""

    setback: Setback | None = None
    is_other_content: bool = False


async def attempt(request: Request) -> Setback | None:
    """Bring the part as far as this try gets; nothing when it is whole, what stopped it otherwise.

    Raises what no other try can mend. What came stays in the part, also when this is cancelled.
    """
    file, partial = request.file, request.partial
    await asyncio.to_thread(_make_fit, partial, file)
    if file.digest is not None and 0 < partial.size_bytes == file.size_bytes:
        request.on_bytes(partial.size_bytes, file.size_bytes)
        return None
    try:
        for _ in range(_RESTARTS):
            ended = await _ask(request)
            if not ended.is_other_content:
                return ended.setback
            await asyncio.to_thread(partial.restart, validator="", digest=file.digest)
        return Setback(
            Unreachable(f"{weights.shown(file.url)}: the origin's ranges contradict each other")
        )
    except httpx.HTTPError as error:
        failure = http_failures.unreachable(error, url=file.url)
        if isinstance(failure, Invalid):
            raise failure from error
        kept = f"{partial.size_bytes} bytes came and are kept" if partial.size_bytes else ""
        return Setback(Unreachable("; ".join(filter(None, (failure.message, kept)))))
    except httpx.InvalidURL as error:
        raise Invalid(f"{weights.shown(file.url)} is not a valid address: {error}") from error


def _make_fit(partial: Partial, file: RemoteFile) -> None:
    """Empty a part of other or unknown content; have a digest worked out before time is short."""
    is_other = file.digest and partial.noted_digest not in {"", str(file.digest)}
    is_known = partial.validator or partial.noted_digest
    is_long = file.size_bytes is not None and partial.size_bytes > file.size_bytes
    if partial.size_bytes and (is_other or is_long or not is_known):
        partial.restart(validator="", digest=file.digest)
    digest = file.digest or digests.noted(partial.noted_digest)
    if digest is not None:
        partial.expect(digest, size_bytes=file.size_bytes)


async def _ask(request: Request) -> _Ended:
    partial, url = request.partial, request.file.url
    headers = {"Accept-Encoding": "identity", **request.headers, **_range(partial)}
    async with request.client.stream("GET", url, headers=headers, timeout=TIMEOUT) as response:
        if (
            response.is_error
            and response.status_code != httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE
        ):
            failure = http_failures.refused(response, url=url)
            if isinstance(failure, Unreachable):
                return _Ended(Setback(failure, wait_s=http_failures.wait_s(response)))
            raise failure
        answer = _read(response, request)
        if answer.must_restart:
            return _Ended(is_other_content=True)
        if response.status_code == httpx.codes.OK:
            await asyncio.to_thread(_begin, response, request)
        partial.was_resumed = partial.size_bytes > 0
        request.on_bytes(partial.size_bytes, answer.total_bytes)
        if not answer.is_complete:
            await _pour(response, request, total_bytes=answer.total_bytes)
    if answer.total_bytes is not None and partial.size_bytes != answer.total_bytes:
        return _Ended(
            Setback(
                Unreachable(
                    f"{weights.shown(url)}: the download ended after {partial.size_bytes} bytes, "
                    f"{answer.total_bytes} were promised; they are kept"
                )
            )
        )
    return _Ended()


def _range(partial: Partial) -> dict[str, str]:
    if not partial.size_bytes:
        return {}
    headers = {"Range": f"bytes={partial.size_bytes}-"}
    return headers | ({"If-Range": partial.validator} if partial.validator else {})


def _begin(response: httpx.Response, request: Request) -> None:
    """The whole file comes: what was there is no part of it."""
    digest = request.file.digest or _published(response)
    request.partial.restart(validator=_validator(response.headers), digest=digest)
    if digest is not None:
        request.partial.expect(digest, size_bytes=request.file.size_bytes)


def _published(response: httpx.Response) -> Digest | None:
    """The digest that the answer tells, or one of those that led to it."""
    found = digests.published(response.headers)
    for earlier in response.history:
        found = found or digests.linked(earlier.headers)
    return found


def _read(response: httpx.Response, request: Request) -> _Answer:
    partial, file = request.partial, request.file
    if response.status_code == httpx.codes.OK:
        _check_is_file(response, url=file.url)
        return _Answer(total_bytes=file.size_bytes or _length(response.headers))
    start, total = _content_range(response.headers)
    told = _published(response)
    # Some origins know ranges and not If-Range: they must not mix two versions either.
    is_other = (
        (file.size_bytes is not None and total not in {None, file.size_bytes})
        or (told is not None and partial.wanted not in {None, told})
        or bool(partial.validator and _validator(response.headers) not in {"", partial.validator})
    )
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        return _Answer(total_bytes=total, must_restart=is_other or start != partial.size_bytes)
    # Everything came, and only the renaming was missed.
    is_complete = bool(partial.size_bytes) and total == partial.size_bytes and not is_other
    return _Answer(total_bytes=total, is_complete=is_complete, must_restart=not is_complete)


def _check_is_file(response: httpx.Response, *, url: str) -> None:
    if response.headers.get("content-type", "").startswith("text/html"):
        raise Invalid(
            f"{weights.shown(url)} is a web page and not a model file; "
            "on Hugging Face, write /resolve/ where the address has /blob/"
        )
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Invalid(
            f"{weights.shown(url)} is sent compressed, which no resumed download survives"
        )


async def _pour(response: httpx.Response, request: Request, *, total_bytes: int | None) -> None:
    """Write the body block by block; also what had come when it breaks off.

    A cancelled transfer drops its last block: the one before may still be on its way to the disk.
    """
    partial, block = request.partial, bytearray()

    def write(whole: bytes) -> None:
        if whole:
            came = partial.size_bytes
            request.check_room(len(whole) if total_bytes is None else total_bytes - came)
            partial.append(whole)

    request.check_room(0 if total_bytes is None else total_bytes - partial.size_bytes)
    try:
        async for chunk in response.aiter_raw():
            block += chunk
            if total_bytes is not None and partial.size_bytes + len(block) > total_bytes:
                await asyncio.to_thread(partial.restart, validator="", digest=None)
                raise Invalid(
                    f"{weights.shown(request.file.url)} sends more than the {total_bytes} bytes "
                    "that it should have; what came is thrown away"
                )
            request.on_bytes(partial.size_bytes + len(block), total_bytes)
            if len(block) >= BUFFER_BYTES:
                whole, block = bytes(block), bytearray()
                await asyncio.to_thread(write, whole)
    except httpx.HTTPError:
        await asyncio.to_thread(write, bytes(block))
        raise
    await asyncio.to_thread(write, bytes(block))


def _validator(headers: httpx.Headers) -> str:
    """What ``If-Range`` may carry: a strong entity tag, else the date of change."""
    etag: str = headers.get("etag", "")
    if etag and not etag.startswith("W/"):
        return etag
    modified: str = headers.get("last-modified", "")
    return modified


def _length(headers: httpx.Headers) -> int | None:
    written: str = headers.get("content-length", "")
    return int(written) if written.isdecimal() else None


def _content_range(headers: httpx.Headers) -> tuple[int | None, int | None]:
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if match is None:
        return None, None
    start, total = match[1], match[2]
    return (int(start) if start else None, int(total) if total != "*" else None)
