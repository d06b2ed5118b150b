"""Carries out orders about the node itself: downloads that go, engines that come or are checked.

``commands`` calls it and never waits; each order may come twice. Every thing ordered is answered
with what became of it, and an installation that fails later is answered once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from llmgw.domain.deeds import Deed, EngineWant
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.offloading import Lane
from llmgw.kit.tasks import Tasks

INSTALL_WITHIN_S = 3600.0
"""An installation that hangs for longer is given up, so that the next one is not kept waiting."""

CHECK_WITHIN_S = 400.0
"""Two programs that load torch before they say anything, each within its own bound."""

OnDone = Callable[[tuple[Deed, ...]], None]
_log = logs.get(__name__)


class Upkeep:
    """The node's own orders; fits the session's ``NodeUpkeep``."""

    def __init__(
        self,
        *,
        remove: Callable[[str], Awaitable[bool]],
        install: Callable[[EngineWant], EngineInstall],
        check: Callable[[str], EngineCheck],
        own_programs: Collection[str],
    ) -> None:
        """``remove`` takes a download away and says whether it was there; the others may block.

        ``own_programs`` are engines whose program the settings name: those are left alone.
        """
        self._remove = remove
        self._install = install
        self._check = check
        self._own_programs = frozenset(own_programs)
        self._installing: dict[str, EngineWant] = {}
        self._lane = Lane(name="installing an engine")
        self._asking = Lane(name="asking an engine for its options")
        self._tasks = Tasks(owner="upkeep")

    def remove_weights(self, paths: Sequence[str], *, on_done: OnDone) -> None:
        """Remove each download that may go; one that stays is answered with the reason."""
        self._tasks.spawn("remove weights", self._remove_all(tuple(paths), on_done))

    def provision(self, wants: Sequence[EngineWant], *, on_done: OnDone) -> None:
        """Install each engine; what is under way already is only answered again."""
        on_done(tuple(self._begin(want, on_done=on_done) for want in wants))

    def check_engine(self, engine: str, *, on_done: OnDone) -> None:
        """Ask each program of an engine for its options, one engine after the other."""
        self._tasks.spawn(f"check {engine}", self._ask(engine, on_done))

    async def close(self) -> None:
        """End what is under way; an installation that is cut off says so on the disk."""
        await self._tasks.close()

    async def _remove_all(self, paths: tuple[str, ...], on_done: OnDone) -> None:
        on_done(tuple([await self._removed(path) for path in paths]))

    async def _removed(self, path: str) -> Deed:
        try:
            was_there = await self._remove(path)
        except LlmgwError as error:
            _log.warning("weights_kept", path=path, reason=error.message)
            return Deed(path, is_done=False, detail=error.message)
        return Deed(path, is_done=True, detail="" if was_there else "it was not there")

    def _begin(self, want: EngineWant, *, on_done: OnDone) -> Deed:
        subject = _named(want)
        if want.engine in self._own_programs:
            reason = f"the settings of this node name its program of {want.engine}"
            return Deed(subject, is_done=False, detail=reason)
        under_way = self._installing.get(want.engine)
        if under_way is None:
            self._installing[want.engine] = want
            self._tasks.spawn(f"install {want.engine}", self._run(want, on_done))
        elif under_way != want:
            return Deed(subject, is_done=False, detail=f"{_named(under_way)} is being installed")
        return Deed(subject, is_done=True, detail="it is being installed; heartbeats tell how far")

    async def _ask(self, engine: str, on_done: OnDone) -> None:
        try:
            checked = await self._asking.run(lambda: self._check(engine), timeout_s=CHECK_WITHIN_S)
        except LlmgwError as error:
            on_done((Deed(engine, is_done=False, detail=error.message),))
        else:
            on_done(tuple(_deed(program) for program in checked.programs))

    async def _run(self, want: EngineWant, on_done: OnDone) -> None:
        """Install one engine; how it ended is left on the disk, where heartbeats find it."""
        try:
            ended = await self._lane.run(lambda: self._install(want), timeout_s=INSTALL_WITHIN_S)
        except LlmgwError as error:
            _log.warning("engine_not_installed", engine=want.engine, reason=error.message)
            on_done((Deed(_named(want), is_done=False, detail=error.message),))
        else:
            if ended.state is not InstallState.READY:
                on_done((Deed(_named(want), is_done=False, detail=ended.detail),))
        finally:
            self._installing.pop(want.engine, None)


def _named(want: EngineWant) -> str:
    return f"{want.engine} {want.version}"


def _deed(program: ProgramCheck) -> Deed:
    """What came of one program; what it was asked for is in its words."""
    said = program.failure or "; ".join(program.problems) or f"{program.checked} options"
    return Deed(" ".join(program.words), is_done=program.is_good, detail=said)
