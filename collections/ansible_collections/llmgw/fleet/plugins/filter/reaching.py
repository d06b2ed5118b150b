# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters that read from a connection's result why a machine does not let us in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_SIGNS = {
    "host_key": ("HOST IDENTIFICATION HAS CHANGED", "Host key verification failed"),
    "login": ("Permission denied",),
    "root": ("password is required", "not in the sudoers"),
}
"""What OpenSSH and sudo say, by the refusal that it means."""

_TOLD = ("msg", "stderr", "stdout")
_SHOWN = 200
"""So much of the end of an unknown answer is shown."""


def reach_refusal(result: Mapping[str, Any]) -> str:
    """Which refusal it is: ``host_key``, ``login`` or ``root``; empty for anything else."""
    said = _said(result)
    return next((name for name, signs in _SIGNS.items() if any(s in said for s in signs)), "")


def reach_mistake(
    result: Mapping[str, Any], name: str, address: str, user: str = "", waited_s: int = 0
) -> str:
    """Why the machine does not let us in and what to do, as a sentence; empty when it does."""
    where = f"{user}@{address}" if user else address
    refusal = reach_refusal(result)
    if refusal:
        return f"{name}: {_SENTENCES[refusal].format(address=address, where=where)}"
    return f"{name}: {where} {_silence(result, int(waited_s))}" if _is_silent(result) else ""


_SENTENCES = {
    "host_key": (
        "the host key of {address} is not the one that was learnt. If the machine was made anew on "
        "purpose, forget the old key with ssh-keygen -R {address}; else find out who answers there."
    ),
    "login": (
        "{where} does not take our key: put the public key into its authorized_keys, or correct "
        "fleet_ssh_user or ansible_ssh_private_key_file."
    ),
    "root": (
        "{where} may not become root: allow sudo without a password (NOPASSWD), or give "
        "--ask-become-pass."
    ),
}


def _is_silent(result: Mapping[str, Any]) -> bool:
    """Whether the attempt failed; a wait that timed out is told by its words alone."""
    is_failed = bool(result.get("unreachable") or result.get("failed") or result.get("rc"))
    return is_failed or "timed out" in str(result.get("msg") or "")


def _silence(result: Mapping[str, Any], waited_s: int) -> str:
    return (
        f"did not let us in within {waited_s} s ({_said(result)[-_SHOWN:]}): see that the machine "
        "runs, and that its address and the way to it are right."
    )


def _said(result: Mapping[str, Any]) -> str:
    return " ".join(str(result[key]).strip() for key in _TOLD if result.get(key))


class FilterModule:
    """Filters on the result of a connection."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Their names in templates."""
        return {"reach_mistake": reach_mistake, "reach_refusal": reach_refusal}
