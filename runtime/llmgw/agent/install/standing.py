"""How the engines that were installed on this node stand now; looked at again from time to time.

Discovery asks at every heartbeat. What an installer has written since is seen at once; whether a
build still runs is tried at the start, after each installation, and every few minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from llmgw.agent.install.builds import Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.notices import Notices
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.kit import logs
from llmgw.kit.clock import Clock

CHECK_S = 600.0
CHECK_FAILED_S = 60.0

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Standings:
    """What is installed: versions of what was seen to run, and a status for each engine."""

    versions: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[EngineInstall, ...] = ()

    @property
    def engines(self) -> frozenset[str]:
        """Engines that an installation decides about: what else lies on PATH does not count."""
        return frozenset(install.engine for install in self.installs)


class EngineWatch:
    """Looks at the engines below one root folder, which may block while one of them starts."""

    def __init__(
        self,
        *,
        builds: Builds,
        examiner: Callable[[], Examiner],
        opted_out: Collection[str],
        clock: Clock,
    ) -> None:
        """``opted_out`` are engines whose program the settings name: these are left alone."""
        self._builds = builds
        self._notices = Notices(builds.root)
        self._examiner = examiner
        self._opted_out = frozenset(opted_out)
        self._clock = clock
        self._seen: dict[str, EngineInstall] = {}
        self._signature: object = None
        self._due_at = 0.0

    def look(self) -> Standings:
        """How they stand; builds are tried only when that is due."""
        engines = [e for e in self._builds.engines() if e not in self._opted_out]
        signature = self._notices.signature()
        if signature != self._signature or self._clock.monotonic() >= self._due_at:
            self._try(engines)
            self._signature = signature
        statuses = [status for e in engines if (status := self._status(e)) is not None]
        return Standings(
            versions={
                engine: status.version
                for engine, status in self._seen.items()
                if status.state is InstallState.READY
            },
            installs=tuple(statuses),
        )

    def _try(self, engines: Collection[str]) -> None:
        """Start the build in use of each, and note what became of it."""
        examiner, before = self._examiner(), self._seen
        built = {e: current for e in engines if (current := self._builds.current(e)) is not None}
        self._seen = {e: examiner.examine(b, is_deep=False).status for e, b in built.items()}
        all_ready = all(s.state is InstallState.READY for s in self._seen.values())
        self._due_at = self._clock.monotonic() + (CHECK_S if all_ready else CHECK_FAILED_S)
        for engine, status in self._seen.items():
            if before.get(engine) != status:
                _say(status)

    def _status(self, engine: str) -> EngineInstall | None:
        """The word of an installation under way or gone wrong, else how its build stands."""
        said = self._notices.noted(engine)
        if said is not None and said.state is not InstallState.READY:
            return said
        return self._seen.get(engine)


def _say(status: EngineInstall) -> None:
    level = _log.info if status.state is InstallState.READY else _log.warning
    level(
        "engine_checked",
        engine=status.engine,
        version=status.version,
        variant=status.variant,
        state=status.state,
        detail=status.detail or None,
        warning=status.warning or None,
    )
