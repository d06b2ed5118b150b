"""The machines that a simulated fleet is made of: descriptions in JSON, and nodes shaped like them.

A description is an object whose ``facts`` are what an agent would report of such a machine, field
by field as in ``domain.nodes.NodeFacts``; whatever else the file holds is for its readers. A few
come with the package.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import pydantic

import llmgw
from llmgw.domain.names import NODE_NAME
from llmgw.domain.nodes import NodeFacts
from llmgw.errors import Invalid, Problem, SettingsInvalid

_SHIPPED = "hardware"
_SUFFIX = ".json"
_FIRST_ADDRESS = ipaddress.IPv4Address("127.64.0.1")
"""Each node has a loopback address of its own, as each machine has its own ports."""

SIMULATED = "simulated"
"""The label that tells a simulated node; its value says whether its engines answer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of machine; ``facts`` have no identity yet."""

    name: str
    facts: NodeFacts


def shipped() -> tuple[str, ...]:
    """The names of the descriptions that come with the package."""
    folder = resources.files(__package__) / _SHIPPED
    found = (entry.name for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found))


def load(wanted: Sequence[str]) -> tuple[Machine, ...]:
    """The machines of these files or shipped names, all shipped ones when none is named.

    ``SettingsInvalid`` has everything that is wrong with all of them.
    """
    machines: list[Machine] = []
    problems: list[Problem] = []
    for name in wanted or shipped():
        try:
            machines.append(_read(name))
        except Invalid as error:
            found = error.problems if isinstance(error, SettingsInvalid) else ()
            problems += found or (Problem(path=name, message=error.message),)
    if problems:
        raise SettingsInvalid("the hardware cannot be simulated as it is described", problems)
    return tuple(machines)


def node(machine: Machine, *, number: int, prefix: str, serves: bool) -> NodeFacts:
    """The facts of one node of a fleet, with a name, an address and cards of its own."""
    node_id = f"{prefix}-{number:04}"
    if not NODE_NAME.fullmatch(node_id):
        raise Invalid(f"{node_id!r} is no name for a node; choose another prefix")
    facts = machine.facts
    labels = {"machine": machine.name, SIMULATED: "serving" if serves else "not-serving"}
    return replace(
        facts,
        node_id=node_id,
        hostname=node_id,
        mgmt_addr=str(_FIRST_ADDRESS + number),
        agent_version=llmgw.__version__,
        labels={**labels, **facts.labels},
        gpus=tuple(replace(gpu, uuid=f"GPU-{node_id}-{gpu.index}") for gpu in facts.gpus),
        port_range=None,
    )


def _read(wanted: str) -> Machine:
    path = Path(wanted)
    if wanted in shipped():
        text = (resources.files(__package__) / _SHIPPED / f"{wanted}{_SUFFIX}").read_text()
    elif path.suffix == _SUFFIX:
        text = _text(path)
    else:
        raise Invalid(f"no such machine; give a JSON file or one of {', '.join(shipped())}")
    return Machine(name=path.stem, facts=_facts(text, name=wanted))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot be read: {error}") from error


def _facts(text: str, *, name: str) -> NodeFacts:
    try:
        described = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"is not JSON: {error}") from error
    raw = described.get("facts") if isinstance(described, Mapping) else None
    if not isinstance(raw, Mapping):
        raise Invalid("has no object 'facts', which says what the machine reports of itself")
    adapter = pydantic.TypeAdapter(NodeFacts)
    try:
        facts = adapter.validate_python({"node_id": "", **raw})
    except pydantic.ValidationError as error:
        raise SettingsInvalid(name, _problems(error, name=name)) from error
    known = adapter.dump_python(facts, mode="json")
    unknown = list(_unknown(raw, known, at="facts"))
    if unknown:
        message = "no fact of a node has this name"
        raise SettingsInvalid(
            name, [Problem(path=f"{name}: {at}", message=message) for at in unknown]
        )
    return facts


def _problems(error: pydantic.ValidationError, *, name: str) -> list[Problem]:
    return [
        Problem(
            path=f"{name}: {'.'.join(('facts', *map(str, one['loc'])))}",
            message=f"{one['msg']}; given is {one['input']!r}"[:200],
        )
        for one in error.errors()
    ]


def _unknown(raw: object, known: object, *, at: str) -> list[str]:
    """Where a description says something that became no fact."""
    if isinstance(raw, Mapping) and isinstance(known, Mapping):
        strange = [f"{at}.{key}" for key in raw if str(key) not in known]
        return strange + [
            path
            for key, value in raw.items()
            if str(key) in known
            for path in _unknown(value, known[str(key)], at=f"{at}.{key}")
        ]
    if isinstance(raw, Sequence) and isinstance(known, Sequence) and not isinstance(raw, str):
        return [
            path
            for place, (one, other) in enumerate(zip(raw, known, strict=False))
            for path in _unknown(one, other, at=f"{at}[{place}]")
        ]
    return []
