"""What an origin's refusal or silence means, and what a person can do about it.

``hub``, ``mirrors`` and ``transfers`` translate through here; no secret of an address is repeated.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from llmgw.domain import weights
from llmgw.errors import Denied, Invalid, LlmgwError, Unknown, Unreachable

_REASON_CHARACTERS = 200
_LONGEST_WAIT_S = 300.0
_SPENT = re.compile(r"\br=0\s*;\s*t=(\d+)")

_REFUSALS: Mapping[int, tuple[type[LlmgwError], str]] = {
    401: (Denied, "it asks for a login; fetch it yourself and give its path, or use a mirror"),
    403: (Denied, "it may not be fetched from here; fetch it yourself and give its path"),
    404: (Unknown, "there is no such file; check the address"),
    407: (Denied, "the proxy asks for a login; write it into HTTPS_PROXY of the agent"),
    410: (Unknown, "the file is gone; check the address"),
}

_HUB_REFUSALS: Mapping[str, tuple[type[LlmgwError], str]] = {
    "GatedRepo": (
        Denied,
        (
            "its licence must be accepted: do so on the hub's page of the repository, then set "
            "weights.hub_token to a token of that account"
        ),
    ),
    "RepoNotFound": (
        Unknown,
        (
            "there is no such repository, or it is private: check its name, "
            "or set weights.hub_token to a token that may read it"
        ),
    ),
    "RevisionNotFound": (Unknown, "there is no such branch, tag or commit; check what follows @"),
    "EntryNotFound": (Unknown, "there is no such file in the repository; check its name"),
}
"""By ``x-error-code``, the hub's own word; its statuses alone do not tell these apart."""


@dataclass(frozen=True, slots=True)
class Setback:
    """A failure that another try may mend; ``wait_s`` is what the origin asked to wait."""

    error: Unreachable
    wait_s: float = 0.0


def refused(response: httpx.Response, *, url: str) -> LlmgwError:
    """The error that a status of 400 or more stands for; only ``Unreachable`` is worth a retry."""
    status = response.status_code
    hub_word = response.headers.get("x-error-code", "")
    if hub_word in _HUB_REFUSALS:
        made, advice = _HUB_REFUSALS[hub_word]
    elif status in {401, 403} and _was_sent_elsewhere(response):
        # The hub sends each request to a store by a signed address, which soon runs out.
        made, advice = Unreachable, "the address that it was sent on to does not hold; try again"
    else:
        made, advice = _REFUSALS.get(status, (Unreachable, "try again later or check the address"))
    return made(f"{weights.shown(url)} answers {status}: {advice}")


def wait_s(response: httpx.Response) -> float:
    """Seconds that an origin asks to wait, up to five minutes; a date counts as nothing asked.

    The hub says it by ``ratelimit: "api";r=0;t=51``: nothing remains for so many seconds.
    """
    written = response.headers.get("retry-after", "")
    spent = _SPENT.search(response.headers.get("ratelimit", ""))
    asked_s = float(written) if written.isdecimal() else float(spent[1]) if spent else 0.0
    return min(asked_s, _LONGEST_WAIT_S)


def unreachable(error: httpx.HTTPError, *, url: str) -> Unreachable | Invalid:
    """A connection that failed; ``Invalid`` when trying again cannot help."""
    where = weights.shown(url)
    if _is_about_trust(error):
        return Invalid(
            f"{where}: its certificate is not trusted ({reason(error)}); add its authority to the "
            "system's store, or name it in SSL_CERT_FILE of the agent"
        )
    if isinstance(error, httpx.UnsupportedProtocol):
        return Invalid(f"{where} sends on to something that is no web address: {reason(error)}")
    if isinstance(error, httpx.TooManyRedirects):
        return Invalid(f"{where} sends on without end; check the address")
    if isinstance(error, httpx.ProxyError):
        return Unreachable(
            f"{where}: the proxy lets nothing through ({reason(error)}); "
            "check HTTPS_PROXY and NO_PROXY of the agent"
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Unreachable(
            f"{where} cannot be reached from this node ({reason(error)}); check the network, set "
            "HTTPS_PROXY of the agent, or take the model from a mirror or a path"
        )
    return Unreachable(f"{where}: {reason(error)}")


def reason(error: Exception) -> str:
    """A foreign error in few words."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text[:_REASON_CHARACTERS]


def _was_sent_elsewhere(response: httpx.Response) -> bool:
    return bool(response.history) and response.history[0].url.netloc != response.url.netloc


def _is_about_trust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
