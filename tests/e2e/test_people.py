"""People and keys as ``docs/operate/people.md`` tells: each of its commands, and each page."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from string import Template

import httpx
import pytest
import yaml

from tests.fakes import commands
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PAGE = Path(__file__).parents[2] / "docs/operate/people.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
PUBLIC = "https://llm.example.org"
EMAIL, PASSWORD = "ann@example.org", "correct horse battery"
_SECRET = re.compile(r'<code id="key">(sk-[\w-]+)</code>')
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Operator:
    """Types what the page says, block after block, with its addresses and names filled in."""

    def __init__(self, deployment):
        self._url = deployment.url
        self._left = list(BLOCKS)
        self.store = str(deployment.root / "store.db")
        self.names = {}

    def types(self, *, told=()):
        """The next block; everything that it wrote."""
        block = Template(self._left.pop(0).replace(PUBLIC, self._url)).substitute(self.names)
        said = "".join(self.says(*shlex.split(line)) for line in block.splitlines())
        for words in told:
            assert words in said
        return said

    def says(self, program, *words):
        """What one command writes; ours without a process of its own."""
        if program == "llmgw":
            done = commands.here(*words, environ={"LLMGW_AUTH__STORE": self.store})
        else:
            done = subprocess.run(
                [program, "--fail", "--silent", *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    @property
    def is_done(self):
        return not self._left


@pytest.fixture
def operator(deployment):
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    return Operator(deployment)


def start(deployment, operator):
    """A server with the settings of the page."""
    settings = yaml.safe_load(
        re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    )
    auth = {
        **settings["auth"],
        "store": operator.store,
        "public_url": deployment.url,
        "cache_ttl": 1,
    }
    deployment.server(
        auth=auth,
        endpoints=[{"id": "e", "url": "http://127.0.0.1:9", "models": ["sim"], "engine": "sim"}],
    )


def fill(browser, path, *, page="/profile", **fields):
    csrf = _CSRF.search(browser.get(page).text)[1]
    return browser.post(path, data={"csrf": csrf, **fields})


def seen(url, key):
    """What the gateway says to who shows a key."""
    fields = {"authorization": f"Bearer {key}"}
    return httpx.get(f"{url}/v1/models", headers=fields).status_code


def test_a_cluster_is_opened_to_people_as_the_page_says(deployment, operator):
    operator.types(told=["acme/research/chat"])
    start(deployment, operator)
    with httpx.Client(base_url=deployment.url) as browser:
        assert browser.get("/v1/models").status_code == 401
        form = {"email": EMAIL, "name": "Ann", "password": PASSWORD}
        assert browser.post("/signup", data=form).status_code == 200
        operator.types(told=[EMAIL, "acme/research/chat"])
        assert browser.post("/login", data=form).headers["location"] == "/profile"
        made = fill(browser, "/profile/keys", name="laptop")
        operator.names["KEY"] = key = _SECRET.search(made.text)[1]
        assert '"id":"key-' in operator.types(told=['"object":"list"'])
        assert seen(deployment.url, "sk-wrong") == 401
        assert seen(deployment.url, key) == 200

        operator.types(told=["bob@example.org", "PASSWORD"])
        link = re.search(r"LINK +(\S+)", operator.types())[1]
        assert link.startswith(f"{deployment.url}/claim/")
        given = _SECRET.search(httpx.post(link).text)[1]
        assert httpx.post(link).status_code == 404
        assert seen(deployment.url, given) == 200

        operator.types(told=["600"])
        listed = operator.says("llmgw", "keys", "list", "--owner", "bob@example.org")
        operator.names["KEY_ID"] = re.search(r"key-\w+", listed)[0]
        operator.types(told=["suspended", "notebook", "revoked"])
        until(lambda: seen(deployment.url, given) == 401, "a revoked key is refused")

        operator.types(told=[EMAIL, "administrator"])
        assert operator.is_done
        assert browser.get("/profile").status_code == 303, "a new password ends every session"
        assert seen(deployment.url, key) == 200, "keys work on"


def test_without_its_server_a_gateway_says_so_on_pages_and_knows_its_keys(deployment, operator):
    operator.types()
    start(deployment, operator)
    key = re.search(r"sk-[\w-]{43}", operator.says("llmgw", "keys", "create", "ci"))[0]
    assert seen(deployment.url, key) == 200
    assert httpx.get(f"{deployment.url}/login").status_code == 200
    deployment.parts["server"].kill()
    away = httpx.get(f"{deployment.url}/login")
    assert (away.status_code, away.json()["error"]["code"]) == (503, "house_away")
    assert away.elapsed.total_seconds() < 1.0
    assert seen(deployment.url, key) == 200
    deployment.parts["server"].start()
    until(
        lambda: httpx.get(f"{deployment.url}/login").status_code == 200,
        "the next server has the pages",
    )
