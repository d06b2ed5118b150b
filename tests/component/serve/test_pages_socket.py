"""The pages behind their socket: who gets in, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest

from llmgw.config.settings import AuthSettings, ServerSettings
from llmgw.config.vouching import OidcSettings
from llmgw.kit.clock import SystemClock
from llmgw.serve import accounts, house_socket
from llmgw.serve.pages import Pages
from tests.fakes.login_provider import SECRET, LoginProvider


@pytest.fixture
def store(planted):
    return planted


@pytest.fixture
async def pages(store, tmp_path):
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    made = Pages(joined, auth=AuthSettings(signup_open=False), run_dir=tmp_path, environ={})
    made.start()
    yield made
    await made.close()


def client(tmp_path):
    way = httpx.AsyncHTTPTransport(uds=str(house_socket.path(tmp_path)), verify=False)
    return httpx.AsyncClient(transport=way, base_url="http://llm.example")


async def test_the_socket_is_its_users_alone_and_goes_with_the_server(pages, tmp_path):
    path = house_socket.path(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await pages.close()
    assert not path.exists()


async def test_settings_reach_the_pages(pages, tmp_path):
    async with client(tmp_path) as browser:
        assert (await browser.get("/login")).status_code == 200
        assert (await browser.get("/signup")).status_code == 404


async def test_login_by_the_provider_of_the_settings(store, tmp_path):
    provider = LoginProvider()
    await provider.start()
    oidc = OidcSettings(
        issuer=provider.url,
        client_id="llmgw",
        client_secret="${OIDC_SECRET}",
        projects={"research": "p1"},
    )
    pages = Pages(
        accounts.joined(store, settings=ServerSettings(), clock=SystemClock()),
        auth=AuthSettings(oidc=oidc, public_url="http://llm.example"),
        run_dir=tmp_path,
        environ={"OIDC_SECRET": SECRET},
    )
    pages.start()
    async with client(tmp_path) as browser:
        away = await browser.get("/login/oidc")
        back = provider.authorize(away.headers["location"])
        assert back.startswith("http://llm.example/login/oidc/callback?")
        assert (await browser.get(back)).headers["location"] == "/profile"
        assert "acme/research/chat" in (await browser.get("/profile")).text
    await pages.close()
    await provider.close()


async def test_a_socket_of_a_dead_server_is_taken_over(pages, store, tmp_path):
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    heir = Pages(joined, auth=AuthSettings(), run_dir=tmp_path, environ={})
    heir.start()
    async with client(tmp_path) as browser:
        assert (await browser.get("/signup")).status_code == 200
    await heir.close()


_VISIT = """
import socket, sys
wire = socket.socket(socket.AF_UNIX)
wire.settimeout(20)
wire.connect(sys.argv[1])
try:
    wire.sendall(b"GET /login HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
    print(wire.recv(12).decode())
except ConnectionError:
    print("")
"""


@pytest.fixture
def open_folder():
    """A folder into which everybody may go."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_another_user_is_cut_off_even_where_the_folder_lets_it_in(store, open_folder):
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    pages = Pages(joined, auth=AuthSettings(), run_dir=open_folder, environ={})
    pages.start()
    path = house_socket.path(open_folder)
    path.chmod(0o666)
    said = {}
    for user in (65534, 0):
        words = ("/usr/bin/env", "python3", "-c", _VISIT, path)
        visit = await asyncio.create_subprocess_exec(*words, user=user, stdout=PIPE)
        said[user] = (await visit.communicate())[0].decode().strip()
    await pages.close()
    assert said == {65534: "", 0: "HTTP/1.1 200"}
