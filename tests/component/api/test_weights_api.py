"""Downloads that no model names, by the admin API and ``ctl``: listed, and removed when asked."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import httpx
import pytest

from llmgw.api.application import create_app
from llmgw.domain import weights
from llmgw.domain.nodes import LocalWeights
from llmgw.errors import NotConnected
from tests.fakes.deployment import llmgw
from tests.fakes.fleet import FakeDownloads, FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening

NAMED = "https://models.example/named.gguf?token=secret#sha256=" + "a" * 64
FOLDER = Path("/var/lib/llmgw-weights")
KEPT = str(FOLDER / weights.cache_name(NAMED))
ORPHAN = str(FOLDER / weights.cache_name("https://models.example/gone.gguf"))
MINE = str(FOLDER / "mine.gguf")


@pytest.fixture
def downloads():
    return FakeDownloads()


@pytest.fixture
def url(downloads):
    """Two nodes with a named download, one that nobody names and a person's own file."""
    fleet = FakeFleet()
    found = tuple(LocalWeights(path, size_bytes=7) for path in (KEPT, ORPHAN, MINE))
    first, second = fleet.node_views[:2]
    fleet.node_views = [dataclasses.replace(one, weights=found) for one in (first, second)]
    fleet.model_views = [dataclasses.replace(fleet.model_views[0], source=NAMED)]
    control = dataclasses.replace(control_of(fleet), downloads=downloads)
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


@pytest.fixture
def nodes(url):
    shown = httpx.get(f"{url}/api/v1/nodes").json()["nodes"]
    return [one["node_id"] for one in shown]


def ctl(url, *words):
    return subprocess.run(
        llmgw("ctl", "--admin", url, "weights", *words), capture_output=True, text=True, check=False
    )


def test_only_downloads_that_no_model_names_are_listed(url, nodes):
    shown = httpx.get(f"{url}/api/v1/weights").json()["orphans"]
    assert [(one["node_id"], one["path"]) for one in shown] == [(node, ORPHAN) for node in nodes]
    assert {(one["size_bytes"], one["is_shared"]) for one in shown} == {(7, False)}
    one = httpx.get(f"{url}/api/v1/weights", params={"node": nodes[1]}).json()["orphans"]
    assert [found["node_id"] for found in one] == [nodes[1]]
    assert httpx.get(f"{url}/api/v1/weights", params={"node": "ghost"}).status_code == 404


def test_each_node_is_asked_for_its_own_and_answers_for_itself(url, nodes, downloads):
    downloads.kept = {ORPHAN: "it stays: shard demo-1.0 uses it"}
    answer = httpx.post(f"{url}/api/v1/weights/collect", json={}).json()
    assert sorted(downloads.asked) == sorted((node, (ORPHAN,)) for node in nodes)
    assert [(one["is_removed"], one["detail"]) for one in answer["removals"]] == [
        (False, "it stays: shard demo-1.0 uses it")
    ] * 2


def test_a_node_that_cannot_be_asked_is_no_failure_of_the_others(url, downloads):
    downloads.error = NotConnected("node gpu01 has no open stream")
    answer = httpx.post(f"{url}/api/v1/weights/collect", json={})
    assert answer.status_code == 200
    assert {one["detail"] for one in answer.json()["removals"]} == {"node gpu01 has no open stream"}


def test_ctl_lists_and_collects_and_its_exit_code_tells_whether_something_stays(
    url, nodes, downloads
):
    listed = ctl(url)
    assert (listed.returncode, listed.stdout.count(ORPHAN)) == (0, 2)
    assert MINE not in listed.stdout
    done = ctl(url, "--node", nodes[0], "--collect", "--json")
    assert (done.returncode, downloads.asked) == (0, [(nodes[0], (ORPHAN,))])
    assert json.loads(done.stdout)["removals"][0]["is_removed"] is True
    downloads.kept = {ORPHAN: "it is being fetched"}
    kept = ctl(url, "--collect")
    assert kept.returncode == 5
    assert "it is being fetched" in kept.stdout
