"""Joins what installs and checks engines with the orders of an agent's control plane.

An agent that does not run as root installs no packages of the system: it says which are missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from llmgw.agent.discovery import host
from llmgw.agent.engines import help_asking, registry
from llmgw.agent.install import release_hosts
from llmgw.agent.install.builds import Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.installing import Installer, Policy
from llmgw.agent.install.tools import Tools
from llmgw.config.settings import AgentSettings
from llmgw.domain.deeds import EngineWant
from llmgw.domain.engine_checks import EngineCheck
from llmgw.domain.nodes import EngineInstall


def installer(
    settings: AgentSettings, *, environ: Mapping[str, str]
) -> Callable[[EngineWant], EngineInstall]:
    """What installs one engine, which may take minutes and blocks meanwhile."""

    def install(want: EngineWant) -> EngineInstall:
        examiner = Examiner(
            builds=Builds(Path(settings.engines_dir)),
            host=host.read(),
            tools=Tools(environ=environ),
        )
        made = Installer(
            examiner=examiner,
            sources=[release_hosts.parse(written) for written in settings.engine_sources],
            policy=Policy(may_install_packages=os.geteuid() == 0),
        )
        return made.install(want.engine, want.version).status

    return install


def checker(settings: AgentSettings, *, environ: Mapping[str, str]) -> Callable[[str], EngineCheck]:
    """What asks one engine's programs for their options, which may take minutes and blocks."""
    drivers = registry.drivers(settings, mgmt_addr=settings.mgmt_addr, environ=environ)

    def check(engine: str) -> EngineCheck:
        return help_asking.check(registry.checkable(engine, drivers), environ=environ)

    return check
