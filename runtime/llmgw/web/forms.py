"""Reads what a person sends with a form: bounded, of our own pages only."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from llmgw.errors import Denied, Invalid

MOST_BYTES = 64 * 1024
_MOST_FIELDS = 50
_KIND = "application/x-www-form-urlencoded"


async def read(request: Request) -> Mapping[str, str]:
    """The fields of a form; ``Invalid`` for anything else, ``Denied`` for a foreign page's."""
    check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        raise Invalid("a form is expected here, as a browser sends it")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise Invalid("the form is too large")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise Invalid("the form cannot be read") from error
    if any("\0" in text for pair in pairs for text in pair):
        raise Invalid("the form cannot be read")
    return dict(pairs)


def check_origin(request: Request) -> None:
    """``Denied`` where a browser says that another site's page has sent this.

    A program says nothing of the kind, and has no cookie to be misused either. A proxy in front may
    ask under another host than the browser did, so the public address is ours as well.
    """
    origin = request.headers.get("origin")
    ours = {request.headers.get("host", "").lower(), request.app.state.public_host}
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() not in ours - {""}
    if is_foreign or request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        raise Denied("this form was sent by a page of another site, so nothing was done")
