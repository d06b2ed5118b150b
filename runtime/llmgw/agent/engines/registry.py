"""The drivers of this node by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmgw.agent.engines.contract import Checkable, Engine, Place
from llmgw.agent.engines.llamacpp import LlamaCpp
from llmgw.agent.engines.sglang import Sglang
from llmgw.agent.engines.sim import Sim
from llmgw.agent.engines.vllm import Vllm
from llmgw.agent.install.builds import Builds
from llmgw.config.settings import AgentSettings
from llmgw.errors import Unknown


class Engines:
    """Finds a driver by the word that a profile uses."""

    def __init__(self, drivers: Sequence[Engine]) -> None:
        """Later drivers of a name replace earlier ones."""
        self._drivers_by_name = {driver.name: driver for driver in drivers}

    @property
    def names(self) -> tuple[str, ...]:
        """The known engines, sorted."""
        return tuple(sorted(self._drivers_by_name))

    def get(self, name: str) -> Engine:
        """The driver of that name, or ``Unknown`` with what there is."""
        driver = self._drivers_by_name.get(name)
        if driver is None:
            raise _unknown(name, self.names)
        return driver


def checkable(name: str, drivers: Sequence[Checkable]) -> Checkable:
    """The one of that name, or ``Unknown`` with what there is."""
    found = next((driver for driver in drivers if driver.name == name), None)
    if found is None:
        raise _unknown(name, sorted(driver.name for driver in drivers))
    return found


def build(settings: AgentSettings, *, mgmt_addr: str, environ: Mapping[str, str]) -> Engines:
    """All drivers, listening on ``mgmt_addr``; ``environ`` is what engine processes inherit."""
    return Engines(drivers(settings, mgmt_addr=mgmt_addr, environ=environ))


def drivers(
    settings: AgentSettings, *, mgmt_addr: str, environ: Mapping[str, str]
) -> tuple[Checkable, ...]:
    """Each driver of ours, as the settings have it."""
    builds, engines = Builds(Path(settings.engines_dir)), settings.engines
    place = Place(
        listen_addr=mgmt_addr,
        environ=environ,
        interface=settings.mgmt_interface,
        ib_root=Path(settings.discovery.ib_root),
    )
    stop_s = settings.supervisor.stop_timeout
    return (
        LlamaCpp(
            settings=engines.llamacpp,
            place=place,
            installed=lambda: builds.program("llamacpp"),
        ),
        Sglang(
            settings=engines.sglang,
            place=place,
            stop_timeout_s=stop_s,
            installed=lambda: builds.program("sglang"),
        ),
        Sim(settings=engines.sim, place=place, stop_timeout_s=stop_s),
        Vllm(
            settings=engines.vllm,
            place=place,
            stop_timeout_s=stop_s,
            installed=lambda: builds.program("vllm"),
        ),
    )


def _unknown(name: str, names: Sequence[str]) -> Unknown:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]}?" if near else ""
    return Unknown(f"this agent has no engine {name!r}, it knows {', '.join(names)}{hint}")
