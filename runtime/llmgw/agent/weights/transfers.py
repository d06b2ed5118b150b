"""One HTTP download into a part file, going on where an earlier one ended.

``fetching`` calls it with a claimed part; it knows nothing of sources, caches or other callers.
A part is gone on with only while the origin's content is the same (RFC 9110 ``If-Range``), because
a file mixed from two versions would load and answer nonsense.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from llmgw.agent.weights.partials import Partial
from llmgw.domain import weights
from llmgw.errors import Denied, Exhausted, Invalid, LlmgwError, Unknown, Unreachable

BUFFER_BYTES = 4 * 1024 * 1024
TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""No bound on the whole: a model may take hours. A silent origin is given up after ``read``."""

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")
_RESTARTS = 2

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes so far and the total, which is ``None`` when the origin does not say it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an origin's head means for the part: where its body goes, and how long the whole is."""

    total_bytes: int | None
    is_complete: bool = False
    must_restart: bool = False


async def transfer(
    *, client: httpx.AsyncClient, url: str, partial: Partial, on_bytes: OnBytes
) -> None:
    """Fill the part until it is whole; what came stays in it when this fails or is cancelled."""
    try:
        for _ in range(_RESTARTS):
            if partial.size_bytes and not partial.validator:
                partial.restart(validator="")
            if await _attempt(client=client, url=url, partial=partial, on_bytes=on_bytes):
                return
            partial.restart(validator="")
    except httpx.HTTPError as error:
        raise Unreachable(_cut_off(url, partial, reason=_reason(error))) from error
    except httpx.InvalidURL as error:
        raise Invalid(f"{weights.shown(url)} is not a valid address: {error}") from error
    raise Unreachable(f"{weights.shown(url)}: the origin's ranges contradict each other; try again")


async def _attempt(
    *, client: httpx.AsyncClient, url: str, partial: Partial, on_bytes: OnBytes
) -> bool:
    """One request; false when the part does not fit the origin and must begin anew."""
    async with client.stream("GET", url, headers=_headers(partial), timeout=TIMEOUT) as response:
        answer = _read(response, url=url, partial=partial)
        if answer.must_restart:
            return False
        if response.status_code == httpx.codes.OK:
            partial.restart(validator=_validator(response.headers))
        on_bytes(partial.size_bytes, answer.total_bytes)
        if not answer.is_complete:
            _check_space(partial, total_bytes=answer.total_bytes)
            await _pour(response, partial, on_bytes=on_bytes, total_bytes=answer.total_bytes)
    if answer.total_bytes is not None and partial.size_bytes < answer.total_bytes:
        raise Unreachable(
            _cut_off(url, partial, reason=f"{answer.total_bytes} bytes were promised")
        )
    return answer.total_bytes is None or partial.size_bytes == answer.total_bytes


def _headers(partial: Partial) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if partial.size_bytes:
        headers |= {"Range": f"bytes={partial.size_bytes}-", "If-Range": partial.validator}
    return headers


def _read(response: httpx.Response, *, url: str, partial: Partial) -> _Answer:
    status = response.status_code
    if status == httpx.codes.OK:
        if response.headers.get("content-type", "").startswith("text/html"):
            raise Invalid(
                f"{weights.shown(url)} is a web page and not a model file; "
                "on Hugging Face, write /resolve/ where the address has /blob/"
            )
        return _Answer(total_bytes=_length(response.headers))
    start, total = _content_range(response.headers)
    # Some origins know ranges and not If-Range: they must not mix two versions either.
    is_other = _validator(response.headers) not in {"", partial.validator}
    if status == httpx.codes.PARTIAL_CONTENT:
        must_restart = is_other or start != partial.size_bytes
        return _Answer(total_bytes=total, must_restart=must_restart)
    if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and partial.size_bytes:
        # Everything came, and only the renaming was missed.
        is_complete = total == partial.size_bytes and not is_other
        return _Answer(total_bytes=total, is_complete=is_complete, must_restart=not is_complete)
    raise _refusal(status, url=url)


async def _pour(
    response: httpx.Response, partial: Partial, *, on_bytes: OnBytes, total_bytes: int | None
) -> None:
    """Write the body block by block; also what had come when it breaks off.

    A cancelled transfer drops its last block: the one before may still be on its way to the disk.
    """
    block = bytearray()
    try:
        async for chunk in response.aiter_raw():
            block += chunk
            on_bytes(partial.size_bytes + len(block), total_bytes)
            if len(block) >= BUFFER_BYTES:
                whole, block = bytes(block), bytearray()
                await asyncio.to_thread(partial.append, whole)
    except httpx.HTTPError:
        partial.append(bytes(block))
        raise
    await asyncio.to_thread(partial.append, bytes(block))


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


def _check_space(partial: Partial, *, total_bytes: int | None) -> None:
    if total_bytes is None:
        return
    folder = partial.target.parent
    missing, free = total_bytes - partial.size_bytes, shutil.disk_usage(folder).free
    if missing > free:
        raise Exhausted(
            f"{partial.target.name} needs {missing} more bytes and {folder} has {free} free; "
            "make room there or set weights_dir to a larger disk"
        )


def _cut_off(url: str, partial: Partial, *, reason: str) -> str:
    return (
        f"{weights.shown(url)}: the download ended after {partial.size_bytes} bytes ({reason}); "
        "they are kept and the next try goes on from there"
    )


def _reason(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}"[:200] if str(error) else type(error).__name__


_REFUSALS: Mapping[int, tuple[type[LlmgwError], str]] = {
    401: (
        Denied,
        "it asks for a login, which agents do not have; fetch it yourself, give its path",
    ),
    403: (Denied, "it may not be fetched from here; fetch it yourself and give its path"),
    404: (Unknown, "there is no such file; check the address"),
    410: (Unknown, "the file is gone; check the address"),
}


def _refusal(status: int, *, url: str) -> LlmgwError:
    made, advice = _REFUSALS.get(status, (Unreachable, "try again later or check the address"))
    return made(f"{weights.shown(url)} answers {status}: {advice}")
