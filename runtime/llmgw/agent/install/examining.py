"""Says how an installed engine stands on this machine: ready, or failed and why.

The agent asks from time to time, ``llmgw engine check`` when a person wants to know, the installer
before and after its work. Nothing is changed and no network is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from llmgw.agent.install import packages, recipes, venvs, verifying
from llmgw.agent.install.builds import Builds, Installed
from llmgw.agent.install.recipes import Build, Recipe
from llmgw.agent.install.tools import Tools
from llmgw.domain.nodes import EngineInstall, Host, InstallState
from llmgw.errors import EngineFailed, LlmgwError


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an engine stands, and what was done to it."""

    status: EngineInstall
    program: Path | None = None
    folder: Path | None = None
    is_changed: bool = False
    missing_packages: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """It was seen to run."""
        return self.status.state is InstallState.READY


@dataclass(frozen=True, slots=True)
class Examiner:
    """Looks at builds; ``host`` is this machine as discovery reads it."""

    builds: Builds
    host: Host
    tools: Tools

    def check(self, engine: str, version: str = "") -> Outcome:
        """How the build in use stands, or that of a version; loads the engine where it must."""
        found = self._named(engine, version)
        if found is not None:
            return self.examine(found, is_deep=True)
        what = f"{engine} {version}".strip()
        detail = f"{what} is not installed in {self.builds.root}"
        return Outcome(EngineInstall(engine, version, "", InstallState.FAILED, detail))

    def examine(self, found: Installed, *, is_deep: bool) -> Outcome:
        """Whether a build can run here now; a quick look never touches a card."""
        marker = found.marker
        status = EngineInstall(marker.engine, marker.version, marker.variant, InstallState.READY)
        missing: tuple[str, ...] = ()
        try:
            recipe = recipes.choose(marker.engine, marker.version, self.host)
            missing = self.missing_packages(recipe)
            if missing:
                raise EngineFailed(f"packages are missing: {', '.join(missing)}")
            told = self._told(recipe, found, is_deep=is_deep)
        except LlmgwError as error:
            failed = replace(status, state=InstallState.FAILED, detail=error.message)
            return Outcome(failed, folder=found.folder, missing_packages=missing)
        warning = recipes.slow_because(recipe, self.host) if isinstance(recipe, Build) else ""
        return Outcome(
            replace(status, detail=told, warning=warning),
            program=found.program,
            folder=found.folder,
        )

    def present(self, recipe: Recipe) -> Installed | None:
        """The build that a recipe would make, where it is installed."""
        if isinstance(recipe, Build):
            return self.builds.find(recipe.engine, version=recipe.version, variant=recipe.variant)
        return venvs.present(recipe, self.builds, driver=self.host.nvidia_driver)

    def missing_packages(self, recipe: Recipe) -> tuple[str, ...]:
        """Packages of the operating system that it needs and that are not there."""
        names = recipe.packages if isinstance(recipe, Build) else {}
        family = packages.family(self.tools)
        return packages.missing(names.get(family, ()), tools=self.tools)

    def _told(self, recipe: Recipe, found: Installed, *, is_deep: bool) -> str:
        if isinstance(recipe, Build):
            verified = verifying.verify(found.folder, recipe.program, tools=self.tools)
            return verified.version_line or f"{recipe.program} runs"
        return venvs.verify(found.folder, recipe, tools=self.tools, is_deep=is_deep)

    def _named(self, engine: str, version: str) -> Installed | None:
        if not version:
            return self.builds.current(engine)
        fit = [built for built in self.builds.of(engine) if built.marker.version == version]
        return next((built for built in fit if built.is_current), fit[0] if fit else None)
