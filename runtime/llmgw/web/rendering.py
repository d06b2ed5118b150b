"""Makes a page of a template and what it shows; every value is escaped, nothing may be missing."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

_FIELDS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # Not "no-referrer": browsers then hide where a form comes from.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


class Renderer:
    """The templates of the pages."""

    def __init__(self) -> None:
        """They are read when they are first shown."""
        self._templates = Environment(
            loader=PackageLoader("llmgw.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["at"] = _at

    def page(
        self, template: str, /, *, status: HTTPStatus = HTTPStatus.OK, **shown: object
    ) -> HTMLResponse:
        """One page."""
        text = self._templates.get_template(f"{template}.html").render(**shown)
        return HTMLResponse(text, status_code=status, headers=_FIELDS)


def _at(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
