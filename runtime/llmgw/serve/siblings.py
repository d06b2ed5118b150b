"""A worker asks the others of its host for a receipt: a request may have been served by any.

Each worker listens at ``<run_dir>/sibling-<pid>.sock``, so that it works without a server too.  A
question is the id of a request, the answer its receipt, empty where there is none.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import socket
from collections.abc import Callable
from pathlib import Path

from llmgw.errors import Denied, Unreachable
from llmgw.gateway.ports import SiblingsWord
from llmgw.kit import logs
from llmgw.serve.link import Link, LinkListener

SOCKETS = "sibling-*.sock"
"""Where workers hear each other, below the run folder."""

_ASK_S = 1.0
_MOST_ID_BYTES = 512
_MOST_QUESTIONS = 16
"""Requests that are asked after at a time: each opens a connection to every sibling."""

_log = logs.get(__name__)


class Siblings:
    """Fits ``gateway.ports.Siblings``; ``find`` gives a receipt of this worker."""

    def __init__(self, run_dir: Path, *, find: Callable[[str], bytes | None]) -> None:
        """Nothing is opened before ``open``."""
        self._run_dir = run_dir
        self._find = find
        self._door: LinkListener | None = None
        self._turn = asyncio.Semaphore(_MOST_QUESTIONS)

    def open(self) -> None:
        """Be there to be asked."""
        path = socket_path(self._run_dir, pid=os.getpid())
        self._door = LinkListener(path, on_link=self._welcome)

    def close(self) -> None:
        """Be asked no more."""
        if self._door is not None:
            self._door.close()

    async def receipt(self, request_id: str) -> SiblingsWord:
        """See ``gateway.ports.Siblings``; all are asked at once."""
        try:
            async with asyncio.timeout(_ASK_S), self._turn:
                return await self._ask_all(request_id)
        except TimeoutError:
            return SiblingsWord(receipt=None, is_complete=False)

    async def _ask_all(self, request_id: str) -> SiblingsWord:
        try:
            others = self._others()
        except OSError:  # too many files are open to see who is there
            return SiblingsWord(receipt=None, is_complete=False)
        questions = [
            asyncio.create_task(_asked(path, request_id), name="sibling.question")
            for path in others
        ]
        is_complete, found = True, None
        try:
            for question in asyncio.as_completed(questions):
                try:
                    found = await question
                except Unreachable:
                    is_complete = False
                if found:
                    break
        finally:
            for task in questions:
                task.cancel()
            await asyncio.gather(*questions, return_exceptions=True)
        return SiblingsWord(receipt=found or None, is_complete=is_complete)

    def _others(self) -> list[Path]:
        own = socket_path(self._run_dir, pid=os.getpid())
        there = self._run_dir.iterdir()
        return [one for one in there if fnmatch.fnmatch(one.name, SOCKETS) and one != own]

    def _welcome(self, link: Link) -> None:
        def answer(body: bytes, fds: tuple[int, ...]) -> None:
            for fd in fds:
                os.close(fd)
            known = (
                self._find(body.decode(errors="replace")) if len(body) <= _MOST_ID_BYTES else None
            )
            link.send(subject="receipt", body=known or b"")

        link.start(on_packet=answer, on_closed=lambda: None)


def socket_path(run_dir: Path, *, pid: int) -> Path:
    """Where the worker ``pid`` hears its siblings."""
    return run_dir / SOCKETS.replace("*", str(pid))


def forget(run_dir: Path, *, pid: int) -> None:
    """Remove what a worker left that was killed."""
    socket_path(run_dir, pid=pid).unlink(missing_ok=True)


async def _asked(path: Path, request_id: str) -> bytes | None:
    """The answer of one sibling, nothing of a dead one; ``Unreachable`` when it does not answer."""
    link = _dialled(path)
    if link is None:
        return None
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def take(body: bytes, fds: tuple[int, ...]) -> None:
        for fd in fds:
            os.close(fd)
        if not answered.done():
            answered.set_result(body)

    def lost() -> None:
        if not answered.done():
            answered.set_exception(Unreachable("a worker went away over a question"))

    link.start(on_packet=take, on_closed=lost)
    try:
        link.send(subject="question", body=request_id.encode())
        return await answered
    finally:
        if not answered.done():
            answered.cancel()
        link.close()


def _dialled(path: Path) -> Link | None:
    """A link to a sibling; it never waits, so a worker that stands still holds nobody up."""
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:  # of ours, which may have too many files open
        raise Unreachable(f"the worker at {path} cannot be asked: {error.strerror}") from error
    sock.setblocking(False)
    try:
        sock.connect(str(path))
        return Link(sock)
    except BlockingIOError as error:
        sock.close()
        raise Unreachable(f"the worker at {path} takes no more questions") from error
    except (OSError, Denied) as error:
        _log.debug("sibling_gone", path=str(path), error=str(error))
        sock.close()
        return None
