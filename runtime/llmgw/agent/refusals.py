"""Says why a session ended, as far as gRPC lets one know, and what a person can run to find out.

A control plane that refuses gives its reason, which is passed on as it is. Everything else comes
from the transport, whose texts are translated here by a table.
"""

from __future__ import annotations

from grpc import aio

from llmgw.config.servers import ServerAddress
from llmgw.errors import LlmgwError, Unreachable
from llmgw.rpc import channels, statuses

_INSPECT = "compare both machines by `llmgw ctl cert inspect FILE`"
_HINTS = (
    (
        "Hostname Verification Check failed",
        "its certificate is not for this name; issue it again there with --host {host}",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        f"its certificate was not signed by the authority in {{ca}}, or is out of date; {_INSPECT}",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "it does not speak TLS; give it certificates (agent_tls), or write http:// here",
    ),
    ("Expected SETTINGS", "something else than a control plane's agent port answers there"),
    ("Connection refused", "nothing listens there; is the control plane running?"),
    ("ping timeout", "it answers no more; the network or the machine is gone"),
    ("Stream removed", "the connection was closed; the control plane ended or restarts"),
)
_CLOSED_IN_HANDSHAKE = (
    "it closed the connection during the handshake, which it does without a reason when it does "
    "not accept our certificate {cert}: its authority is another one, or its clock says that the "
    f"certificate is out of date; {_INSPECT}"
)
_CLOSED_ON_PLAINTEXT = (
    "it closed the connection at once, as a control plane that asks for certificates does; "
    "give tls.ca, tls.cert and tls.key"
)


def explain(
    status: aio.AioRpcError, *, address: ServerAddress, tls: channels.TlsFiles | None
) -> LlmgwError:
    """The error that ended the call: the peer's own, or ``Unreachable`` with what is known."""
    own = statuses.received(status)
    if own is not None:
        return type(own)(f"{address} refused: {own.message}")
    details = status.details() or status.code().name
    hint = _hint(details, address=address, tls=tls)
    return Unreachable(f"{address}: {hint}" if hint else f"{address}: {_shortened(details)}")


def _hint(details: str, *, address: ServerAddress, tls: channels.TlsFiles | None) -> str:
    words = {
        "host": address.target.rpartition(":")[0],
        "ca": tls.ca if tls else "-",
        "cert": tls.cert if tls else "-",
    }
    for sign, hint in _HINTS:
        if sign in details:
            return hint.format(**words)
    if "failed to connect" in details and "Socket closed" in details:
        hint = _CLOSED_ON_PLAINTEXT if address.is_plaintext else _CLOSED_IN_HANDSHAKE
        return hint.format(**words)
    return ""


def _shortened(details: str) -> str:
    return details.removeprefix("failed to connect to all addresses; last error: ")
