"""Makes an engine be installed: the one way, for people, for Ansible and for whoever comes next.

A build that carries its marker is only looked at again, without any network; one that does not run
is installed anew. However it ends, it ends in a state with words for a person, and the last word is
left on the disk, where the agent finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmgw.agent.install import archives, packages, recipes, releases, venvs
from llmgw.agent.install.builds import Installed
from llmgw.agent.install.examining import Examiner, Outcome
from llmgw.agent.install.notices import Notices
from llmgw.agent.install.recipes import Build, Recipe
from llmgw.agent.install.releases import Source, Wanted
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.errors import EngineFailed, LlmgwError, Unsupported

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """What an installation may do beside installing."""

    keep: int = 2
    """Builds that stay, the new one among them."""
    may_activate: bool = True
    may_install_packages: bool = True
    pinned: Mapping[str, str] = field(default_factory=dict)
    """Digests by file name that somebody wrote down before."""


@dataclass(frozen=True, slots=True)
class Installer:
    """Installs engines on this machine; ``say`` hears each step."""

    examiner: Examiner
    sources: Sequence[Source]
    policy: Policy = field(default_factory=Policy)
    say: Say = lambda _: None

    def install(self, engine: str, version: str) -> Outcome:
        """Converge on that version; ``AlreadyHeld`` while another installation of it runs."""
        notices = Notices(self.examiner.builds.root)
        try:
            recipe = recipes.choose(engine, version, self.examiner.host)
        except Unsupported as error:
            outcome = _unsupported(EngineInstall(engine, version, "", InstallState.WANTED), error)
            if engine in recipes.ENGINES:
                with notices.installing(engine):
                    notices.note(outcome.status)
            return outcome
        with notices.installing(engine):
            return _Run(self, recipe, notices).to_its_end()

    def foresee(self, engine: str, version: str) -> Outcome:
        """What ``install`` would do; nothing is written and no source is asked."""
        asked = EngineInstall(engine, version, "", InstallState.WANTED)
        try:
            recipe = recipes.choose(engine, version, self.examiner.host)
        except Unsupported as error:
            return _unsupported(asked, error)
        found = self.examiner.present(recipe)
        if found is not None and (found.is_current or not self.policy.may_activate):
            seen = self.examiner.examine(found, is_deep=False)
            if seen.is_ready:
                return seen
        would = replace(asked, variant=_variant(recipe), detail=f"would install {engine} {version}")
        missing = self.examiner.missing_packages(recipe)
        return Outcome(would, is_changed=True, missing_packages=missing)


class _Run:
    """One installation under way."""

    def __init__(self, installer: Installer, recipe: Recipe, notices: Notices) -> None:
        self._installer = installer
        self._notices = notices
        self._examiner = installer.examiner
        self._builds = installer.examiner.builds
        self._recipe = recipe
        self._status = EngineInstall(
            recipe.engine, recipe.version, _variant(recipe), InstallState.INSTALLING
        )

    def to_its_end(self) -> Outcome:
        """Whatever happens, the last word says how it ended."""
        try:
            outcome = self._converge()
        except Unsupported as error:
            outcome = _unsupported(self._status, error)
        except LlmgwError as error:
            outcome = Outcome(self._ended(error.message))
        except BaseException:
            self._notices.note(self._ended("the installation was interrupted"))
            raise
        self._notices.note(outcome.status)
        return outcome

    def _converge(self) -> Outcome:
        """Packages, the build, the switch to it, and what is too old to stay."""
        has_new_packages = self._install_packages()
        found = self._examiner.present(self._recipe)
        seen = None if found is None else self._examiner.examine(found, is_deep=False)
        is_new = found is None or seen is None or not seen.is_ready
        if found is None or seen is None or not seen.is_ready:
            if seen is not None:
                self._step(f"what is there does not run: {seen.status.detail}")
            found = self._fetch()
            seen = self._examiner.examine(found, is_deep=False)
        if not seen.is_ready:
            return replace(seen, is_changed=True)
        return self._settle(found, seen, is_changed=is_new or has_new_packages)

    def _install_packages(self) -> bool:
        missing = self._examiner.missing_packages(self._recipe)
        if not missing:
            return False
        if not self._installer.policy.may_install_packages:
            raise EngineFailed(f"packages are missing, install them first: {', '.join(missing)}")
        packages.install(missing, tools=self._examiner.tools, say=self._step)
        return True

    def _fetch(self) -> Installed:
        recipe, tools = self._recipe, self._examiner.tools
        self._step(f"asking for checksums of {recipe.engine} {recipe.version}")
        repo = recipe.repo if isinstance(recipe, Build) else ""
        release = releases.find(
            self._installer.sources,
            Wanted(engine=recipe.engine, version=recipe.version, repo=repo),
            pinned=self._installer.policy.pinned,
        )
        if isinstance(recipe, Build):
            archives.install(recipe, release, builds=self._builds, tools=tools, say=self._step)
        else:
            driver = self._examiner.host.nvidia_driver
            venvs.install(
                recipe, release, driver=driver, builds=self._builds, tools=tools, say=self._step
            )
        found = self._examiner.present(recipe)
        if found is None:
            raise EngineFailed(f"{recipe.engine} was installed, and its marker cannot be read")
        return found

    def _settle(self, found: Installed, seen: Outcome, *, is_changed: bool) -> Outcome:
        policy = self._installer.policy
        removed: tuple[str, ...] = ()
        if policy.may_activate:
            is_changed = self._builds.activate(found) or is_changed
            removed = self._builds.prune(self._recipe.engine, keep=policy.keep)
        return replace(seen, is_changed=is_changed or bool(removed), removed=removed)

    def _step(self, text: str) -> None:
        self._status = replace(self._status, detail=text)
        self._notices.note(self._status)
        self._installer.say(text)

    def _ended(self, detail: str) -> EngineInstall:
        return replace(self._status, state=InstallState.FAILED, detail=detail)


def _variant(recipe: Recipe) -> str:
    return recipe.variant if isinstance(recipe, Build) else ""


def _unsupported(asked: EngineInstall, error: Unsupported) -> Outcome:
    return Outcome(replace(asked, state=InstallState.UNSUPPORTED, detail=error.message))
