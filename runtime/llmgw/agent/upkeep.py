"""Carries out orders about the node itself: downloads that come or go, engines that do.

``commands`` calls it and never waits; each order may come twice. Every thing ordered is answered
with what became of it, and an installation that fails later is answered once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from llmgw.domain import weights
from llmgw.domain.deeds import Deed, EngineWant
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck
from llmgw.domain.fetch_status import FetchState, FetchStatus
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


class Shelf(Protocol):
    """The node's downloads; orders fit."""

    async def remove_download(self, path: str) -> bool:
        """Remove one that nobody uses; whether it was there. ``Conflict``, ``Denied``."""
        ...

    async def fetch_ahead(self, source: str) -> FetchStatus:
        """Have a source fetched, whoever needs it later; ``Invalid`` for what is not fetched."""
        ...

    def call_off(self, source: str) -> bool:
        """No longer fetch it ahead; whether it was."""
        ...


class Upkeep:
    """The node's own orders; fits the session's ``NodeUpkeep``."""

    def __init__(
        self,
        *,
        shelf: Shelf,
        install: Callable[[EngineWant], EngineInstall],
        check: Callable[[str], EngineCheck],
        own_programs: Collection[str],
    ) -> None:
        """``shelf`` has the downloads; ``install`` and ``check`` may block.

        ``own_programs`` are engines whose program the settings name: those are left alone.
        """
        self._shelf = shelf
        self._install = install
        self._check = check
        self._own_programs = frozenset(own_programs)
        self._installing: dict[str, EngineWant] = {}
        self._lane = Lane(name="installing an engine")
        self._asking = Lane(name="asking an engine for its options")
        self._tasks = Tasks(owner="upkeep")

    def remove_weights(self, paths: Sequence[str], *, on_done: OnDone) -> None:
        """Remove each download that may go; one that stays is answered with the reason."""
        self._tasks.spawn("remove weights", self._about_all(tuple(paths), self._removed, on_done))

    def fetch_weights(self, sources: Sequence[str], *, is_cancelled: bool, on_done: OnDone) -> None:
        """Fetch weights ahead, or no longer; heartbeats tell how far each is, and how it ended."""
        deed = self._called_off if is_cancelled else self._fetched_ahead
        self._tasks.spawn("fetch weights", self._about_all(tuple(sources), deed, on_done))

    def provision(self, wants: Sequence[EngineWant], *, on_done: OnDone) -> None:
        """Install each engine; what is under way already is only answered again."""
        on_done(tuple(self._begin(want, on_done=on_done) for want in wants))

    def check_engine(self, engine: str, *, on_done: OnDone) -> None:
        """Ask each program of an engine for its options, one engine after the other."""
        self._tasks.spawn(f"check {engine}", self._ask(engine, on_done))

    async def close(self) -> None:
        """End what is under way; an installation that is cut off says so on the disk."""
        await self._tasks.close()

    async def _about_all(
        self, subjects: tuple[str, ...], deed: Callable[[str], Awaitable[Deed]], on_done: OnDone
    ) -> None:
        on_done(tuple([await deed(subject) for subject in subjects]))

    async def _fetched_ahead(self, source: str) -> Deed:
        shown = weights.shown(source)
        try:
            stands = await self._shelf.fetch_ahead(source)
        except LlmgwError as error:
            _log.warning("fetch_refused", source=shown, reason=error.message)
            return Deed(shown, is_done=False, detail=error.message)
        is_here = stands.state is FetchState.PRESENT
        said = "it is here" if is_here else "it is being fetched; heartbeats tell how far"
        return Deed(shown, is_done=True, detail=said)

    async def _called_off(self, source: str) -> Deed:
        shown = weights.shown(source)
        try:
            was_ordered = self._shelf.call_off(source)
        except LlmgwError as error:
            return Deed(shown, is_done=False, detail=error.message)
        if not was_ordered:
            return Deed(shown, is_done=False, detail="nobody has ordered it, or it has ended")
        return Deed(shown, is_done=True, detail="what came is kept; shards that wait go on")

    async def _removed(self, path: str) -> Deed:
        try:
            was_there = await self._shelf.remove_download(path)
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
