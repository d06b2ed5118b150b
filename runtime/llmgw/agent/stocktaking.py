"""The inventory of this machine as a person or a program reads it, before it has joined anything.

Called by ``llmgw agent inventory``; the agent itself reports through ``discovery.facts``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmgw.agent.discovery import address, gpus, host
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.findings import EnginesHere, Files, Hardware
from llmgw.agent.discovery.infiniband import Hca
from llmgw.agent.discovery.scan import Scanner
from llmgw.agent.engines import programs
from llmgw.agent.install.builds import Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.standing import EngineWatch
from llmgw.agent.install.tools import Tools
from llmgw.agent.supervisor import holdings
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings
from llmgw.domain.nodes import Gpu
from llmgw.errors import LlmgwError


@dataclass(frozen=True, slots=True)
class Inventory:
    """One look at a machine."""

    node_id: str
    hostname: str
    mgmt_addr: str | None
    mgmt_interface: str | None
    hardware: Hardware
    files: Files
    engines: EnginesHere
    failures: tuple[str, ...]
    """What could not be read, one sentence each; the rest is whole."""

    warnings: tuple[str, ...] = ()
    """What somebody should know, though nothing is kept from the machine for that."""

    held: frozenset[int] = frozenset()
    """Cards that engines of this node's agent hold."""

    def problems(self, gpu: Gpu) -> tuple[str, ...]:
        """Why a card would not be used now."""
        foreign = gpus.foreign_memory(gpu, held_indices=self.held)
        return gpu.problems if foreign is None else (*gpu.problems, foreign)


def engine_programs(
    settings: AgentSettings, *, environ: Mapping[str, str]
) -> Mapping[str, Sequence[str]]:
    """The words that start each engine of this node, present or not."""
    builds, engines = Builds(Path(settings.engines_dir)), settings.engines
    return {
        "llamacpp": programs.llamacpp_program(
            engines.llamacpp, environ=environ, installed=builds.program("llamacpp")
        ),
        "sglang": programs.sglang_program(
            engines.sglang, environ=environ, installed=builds.program("sglang")
        ),
        "sim": programs.sim_program(engines.sim),
        "vllm": programs.vllm_program(
            engines.vllm, environ=environ, installed=builds.program("vllm")
        ),
    }


def scanner(settings: AgentSettings, *, environ: Mapping[str, str]) -> Scanner:
    """A scanner of this machine; ``environ`` is the agent's own environment."""
    return Scanner(
        settings=settings,
        programs=lambda: engine_programs(settings, environ=environ),
        search_path=environ.get("PATH"),
        standings=_watch(settings, environ=environ).look,
    )


def _watch(settings: AgentSettings, *, environ: Mapping[str, str]) -> EngineWatch:
    """The watch over installed engines; a program that the settings name is somebody's choice."""
    builds, tools = Builds(Path(settings.engines_dir)), Tools(environ=environ)
    return EngineWatch(
        builds=builds,
        examiner=lambda: Examiner(builds=builds, host=host.read(), tools=tools),
        opted_out=named_programs(settings.engines),
        clock=tools.clock,
    )


def named_programs(engines: EnginesSettings) -> tuple[str, ...]:
    """The engines whose program the settings name."""
    named = {
        "llamacpp": engines.llamacpp.bin,
        "sglang": engines.sglang.python,
        "vllm": engines.vllm.bin,
    }
    return tuple(engine for engine, words in named.items() if words)


def take(settings: AgentSettings, *, environ: Mapping[str, str]) -> Inventory:
    """Read everything now; never fails for a part of the machine."""
    who, failures = _who(settings)
    if who is not None:
        settings = replace(settings, mgmt_interface=who.mgmt_interface)
    looking = scanner(settings, environ=environ)
    files, hardware = looking.files(), looking.hardware()
    held, unseen = _held(Path(settings.supervisor.work_dir))
    return Inventory(
        node_id=settings.node_id,
        hostname=settings.hostname,
        mgmt_addr=who.mgmt_addr if who else None,
        mgmt_interface=(who.mgmt_interface or None) if who else None,
        hardware=hardware,
        files=files,
        engines=looking.engines(),
        failures=(*hardware.failures, *failures),
        warnings=(*hardware.warnings, *unseen),
        held=held,
    )


def _who(settings: AgentSettings) -> tuple[Identity | None, tuple[str, ...]]:
    """Where the node is reached, once its settings say enough; else nothing, or why not."""
    if not settings.mgmt_addr and not settings.server:
        return None, ()
    try:
        return address.identity(settings, hostname=settings.hostname), ()
    except LlmgwError as error:
        return None, (error.message,)


def _held(folder: Path) -> tuple[frozenset[int], tuple[str, ...]]:
    """Cards of our own engines, and what to say where nobody lets us look."""
    try:
        return holdings.held_cards(folder), ()
    except OSError as error:
        unseen = f"{folder} cannot be read ({error.strerror}): engines of ours look like others'"
        return frozenset(), (unseen,)


def document(inventory: Inventory) -> dict[str, Any]:
    """The inventory as plain JSON values; what is unknown is left out, what is empty is not."""
    hardware = inventory.hardware
    return _known(
        {
            "node_id": inventory.node_id,
            "hostname": inventory.hostname,
            "mgmt_addr": inventory.mgmt_addr,
            "mgmt_interface": inventory.mgmt_interface,
            "host": _known(dataclasses.asdict(hardware.around.host)),
            "memory_total_mb": hardware.memory_total_mb,
            "source": hardware.cards.source,
            "gpus": [_gpu(gpu, inventory) for gpu in hardware.cards.gpus],
            "hcas": [_hca(hca) for hca in hardware.around.hcas],
            "fabrics": [_known(dataclasses.asdict(check)) for check in hardware.around.fabrics],
            "storage": [dataclasses.asdict(space) for space in inventory.files.storage],
            "weights": [dataclasses.asdict(weights) for weights in inventory.files.weights],
            "engines": dict(inventory.engines.versions),
            "engine_installs": [dataclasses.asdict(i) for i in inventory.engines.installs],
            "warnings": list(inventory.warnings),
            "failures": list(inventory.failures),
        }
    )


def _gpu(gpu: Gpu, inventory: Inventory) -> dict[str, Any]:
    fields = dataclasses.asdict(gpu)
    health = _known(
        {
            "ecc_errors": fields.pop("ecc_errors"),
            "temperature_c": fields.pop("temperature_c"),
            "problems": list(inventory.problems(gpu)),
        }
    )
    del fields["problems"]
    is_held = gpu.index in inventory.held
    return {**_known(fields), "class": gpu.gpu_class, "is_held": is_held, "health": health}


def _hca(hca: Hca) -> dict[str, Any]:
    fields = _known(dataclasses.asdict(hca))
    return {**fields, "ports": [_known(port) for port in fields["ports"]]}


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
