"""Finds the faults of cards that NVIDIA's driver has written to the kernel's log; pure.

Meanings are those of NVIDIA's catalogue of Xid errors. Most Xids blame a program and say nothing of
the card; the ones here leave it unusable until it is reset, its driver loaded anew, or the machine
booted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from llmgw.agent.discovery import bus_ids

FATAL: Mapping[int, str] = {
    48: "an ECC error that could not be corrected",
    62: "its controller has halted",
    64: "a broken row of memory could not be replaced",
    74: "an NVLink has failed",
    79: "it has fallen off the bus",
    95: "an ECC error that could not be contained",
    110: "a security fault",
    119: "its firmware does not answer",
    120: "its firmware has failed",
    140: "an ECC error that was not recovered",
    143: "it could not be initialised",
}

_RECOVERY = 154
"""Tells what has to be done with a card, also when that becomes nothing."""

_XID = re.compile(
    r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?P<rest>.*)", re.DOTALL
)
_ACTION = re.compile(r"to 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")
_GONE = re.compile(r"NVRM: The NVIDIA GPU (?P<bus>[0-9a-fA-F:.]+)")
_LOADED = "NVRM: loading NVIDIA UNIX"


def faults(known: Mapping[str, str], messages: Iterable[str]) -> Mapping[str, str]:
    """What is wrong with each card by its PCI address in ``bus_ids.normal`` form.

    ``known`` are the faults before these messages. A driver that is loaded begins without any.
    """
    found = dict(known)
    for message in messages:
        if _LOADED in message:
            found.clear()
        elif (xid := _XID.search(message)) is not None:
            _note(found, _address(xid["bus"]), code=int(xid["code"]), rest=xid["rest"])
        elif (gone := _GONE.search(message)) is not None and "fallen off the bus" in message:
            found[_address(gone["bus"])] = FATAL[79]
    return found


def _note(found: dict[str, str], address: str, *, code: int, rest: str) -> None:
    if code in FATAL:
        found[address] = f"Xid {code}: {FATAL[code]}"
    elif code == _RECOVERY and (action := _ACTION.search(rest)) is not None:
        if action["action"].lower() == "none":
            found.pop(address, None)
        else:
            found.setdefault(address, f"Xid {code}: {action['action']}")


def _address(bus: str) -> str:
    """The driver leaves the function out, and a card is always function 0."""
    return bus_ids.normal(bus if "." in bus else f"{bus}.0")
