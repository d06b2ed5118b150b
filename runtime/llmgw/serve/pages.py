"""The pages of one server, behind a socket that its gateway's workers alone reach.

The gateway says there who a client is, and is believed: so nobody but this server's own user gets
in. Imported where keys are asked for, and only there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from starlette.routing import BaseRoute
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llmgw.config.settings import AuthSettings
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks
from llmgw.serve import house_socket, people
from llmgw.serve.accounts import Accounts
from llmgw.serve.asgi_port import AsgiPort
from llmgw.web import page_app
from llmgw.web.page_app import Rooms

_BACKLOG = 512
_PRUNE_EVERY_S = 600.0
_PEER = struct.Struct("3i")

_log = logs.get(__name__)


class Pages:
    """One server's pages, from ``start`` to ``close``."""

    def __init__(
        self,
        accounts: Accounts,
        *,
        auth: AuthSettings,
        run_dir: Path,
        environ: Mapping[str, str],
        others: Sequence[BaseRoute] = (),
    ) -> None:
        """``others`` are routes of rooms that answer owners of keys."""
        store, self._clock = accounts.store, accounts.clock
        self._path = house_socket.path(run_dir)
        self._store = store
        self._http: httpx.AsyncClient | None = None
        login = None
        if auth.oidc is not None:
            self._http = httpx.AsyncClient()
            login = people.login(
                auth.oidc, store=store, http=self._http, clock=self._clock, environ=environ
            )
        self._app = page_app.create_app(
            Rooms(
                accounts=accounts.people.accounts,
                keys=accounts.keys,
                claiming=accounts.claiming,
                directory=accounts.directory,
                clock=self._clock,
                login=login,
            ),
            public_url=auth.public_url or "",
            is_signup_open=auth.signup_open,
            others=others,
        )
        self._port: AsgiPort | None = None
        self._tasks = Tasks(owner="pages")

    def start(self) -> None:
        """Answer from now on; raises ``OSError`` where the folder does not let us."""
        listener = bound(self._path)
        self._port = AsgiPort(listener, app=self._app, name="pages", protocol=OwnUserOnly)
        self._port.start()
        self._tasks.spawn("prune", self._prune())

    async def close(self) -> None:
        """Let requests end, then be gone."""
        await self._tasks.close()
        if self._port is not None:
            self._path.unlink(missing_ok=True)
            await self._port.close()
        if self._http is not None:
            await self._http.aclose()

    async def _prune(self) -> None:
        """What has run out is of no use to anybody."""
        while True:
            await asyncio.sleep(_PRUNE_EVERY_S)
            now = self._clock.wall()
            try:
                await self._store.sessions.prune(now=now)
                await self._store.claims.prune(now=now)
            except LlmgwError as error:
                _log.debug("not_pruned", error=str(error))


class OwnUserOnly(HttpToolsProtocol):
    """HTTP for processes of this user, and of root; others are cut off."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look who it is."""
        wire = transport.get_extra_info("socket")
        _, user, _ = _PEER.unpack(
            wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        super().connection_made(transport)
        if user not in {os.geteuid(), 0}:
            _log.warning("page_peer_refused", user=user)
            transport.abort()


def bound(path: Path) -> socket.socket:
    """A listening socket that is this user's from its first moment on.

    The lock of the run folder is held, so one that is there is a dead server's.
    """
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
