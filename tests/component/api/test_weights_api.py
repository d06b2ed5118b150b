"""Downloads by the admin API and ``ctl``: on their way, ordered ahead, and removed when asked."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from llmgw.api.application import create_app
from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import LocalWeights
from llmgw.domain.stored import StoredModel
from llmgw.errors import NotConnected
from tests.fakes.deployment import llmgw
from tests.fakes.fleet import FakeDownloads, FakeFleet, FakeReadiness, catalogs_of, control_of
from tests.fakes.listening import listening
from tests.fakes.stored_models import StoredModelsInMemory

NAMED = "https://models.example/named.gguf?token=secret#sha256=" + "a" * 64
FOLDER = Path("/var/lib/llmgw-weights")
KEPT = str(FOLDER / weights.cache_name(NAMED))
ORPHAN = str(FOLDER / weights.cache_name("https://models.example/gone.gguf"))
MINE = str(FOLDER / "mine.gguf")
COMING = (
    FetchStatus(
        source="https://models.example/named.gguf",
        name=weights.cache_name(NAMED),
        state=FetchState.FETCHING,
        done_bytes=3 * 1024**3,
        total_bytes=31 * 1024**3,
        bytes_per_s=1024**3,
        is_ordered=True,
    ),
    FetchStatus("https://models.example/x", "0-x", FetchState.FAILED, error="it is a page"),
)


@pytest.fixture
def downloads():
    return FakeDownloads()


@pytest.fixture
def fleet():
    """Two nodes with a named download, one that nobody names and a person's own file."""
    fleet = FakeFleet()
    found = tuple(LocalWeights(path, size_bytes=7) for path in (KEPT, ORPHAN, MINE))
    first, second = fleet.node_views[:2]
    fleet.node_views = [
        dataclasses.replace(first, weights=found, fetches=COMING),
        dataclasses.replace(second, weights=found),
    ]
    fleet.model_views = [dataclasses.replace(fleet.model_views[0], source=NAMED)]
    return fleet


@pytest.fixture
def url(fleet, downloads):
    with served(fleet, downloads) as url:
        yield url


@pytest.fixture
def nodes(url):
    shown = httpx.get(f"{url}/api/v1/nodes").json()["nodes"]
    return [one["node_id"] for one in shown]


def left_out(definition):
    """A stored entry that was left out of the catalog."""
    return StoredModel("odd", definition, actor="ann", created_at=1.0, updated_at=1.0, revision=1)


@contextmanager
def served(fleet, downloads, *rows):
    """The API of a control plane with these stored entries."""
    catalogs = catalogs_of((), StoredModelsInMemory(*rows))
    control = dataclasses.replace(control_of(fleet), downloads=downloads, catalogs=catalogs)
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


def ctl(url, *words, noun="weights"):
    return subprocess.run(
        llmgw("ctl", "--admin", url, noun, *words), capture_output=True, text=True, check=False
    )


def test_only_downloads_that_no_model_names_are_listed(url, nodes):
    shown = httpx.get(f"{url}/api/v1/weights").json()["orphans"]
    assert [(one["node_id"], one["path"]) for one in shown] == [(node, ORPHAN) for node in nodes]
    assert {(one["size_bytes"], one["is_shared"]) for one in shown} == {(7, False)}
    one = httpx.get(f"{url}/api/v1/weights", params={"node": nodes[1]}).json()["orphans"]
    assert [found["node_id"] for found in one] == [nodes[1]]
    assert httpx.get(f"{url}/api/v1/weights", params={"node": "ghost"}).status_code == 404


def test_weights_of_a_stored_model_that_was_left_out_are_somebodys(fleet, downloads):
    """Else one entry that a newer version finds wrong would cost its weights on every node."""
    odd = left_out({"source": "https://models.example/gone.gguf", "profiles": "none"})
    with served(fleet, downloads, odd) as url:
        assert httpx.get(f"{url}/api/v1/weights").json()["orphans"] == []


@pytest.mark.parametrize(
    "definition", ["{damaged", {"profiles": []}], ids=["unreadable", "no-source"]
)
def test_nothing_is_removed_while_an_entry_does_not_say_where_its_weights_are(
    fleet, downloads, definition
):
    with served(fleet, downloads, left_out(definition)) as url:
        assert httpx.get(f"{url}/api/v1/weights").json()["orphans"] == []
        refused = httpx.post(f"{url}/api/v1/weights/collect", json={})
    assert refused.status_code == 409
    assert "does not say where its weights are" in refused.text
    assert downloads.asked == []


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


def test_downloads_on_their_way_are_shown_with_the_models_that_need_them(url, nodes):
    shown = httpx.get(f"{url}/api/v1/weights").json()["fetches"]
    assert [(one["node_id"], one["fetch"]["state"]) for one in shown] == [
        (nodes[0], "fetching"),
        (nodes[0], "failed"),
    ]
    named = httpx.get(f"{url}/api/v1/models").json()["models"][0]["name"]
    assert [one["models"] for one in shown] == [[named], []]
    assert (shown[0]["fetch"]["eta_s"], shown[0]["fetch"]["is_ordered"]) == (28.0, True)
    listed = ctl(url).stdout
    assert "3.0 of 31.0 GiB" in listed
    assert "1.0 GiB/s" in listed
    assert "it is a page" in listed
    remarks = ctl(url, noun="nodes").stdout
    assert "could not fetch 0-x: it is a page" in remarks
    assert "3.0 of 31.0 GiB" in remarks


def test_a_model_is_ordered_ahead_on_the_named_nodes_and_each_answers(url, nodes, downloads):
    downloads.kept = {nodes[1]: "the filesystem is full"}
    model = httpx.get(f"{url}/api/v1/models").json()["models"][0]["name"]
    wanted = {"model": model, "node_ids": [*nodes, nodes[0]]}
    answer = httpx.post(f"{url}/api/v1/weights/fetch", json=wanted).json()
    assert answer["orders"] == [
        {"node_id": nodes[0], "is_done": True, "detail": ""},
        {"node_id": nodes[1], "is_done": False, "detail": "the filesystem is full"},
    ]
    assert sorted(downloads.asked) == sorted((node, ("fetch", NAMED)) for node in nodes)


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"model": "ghost", "node_ids": ["n"]}, 404),
        ({"node_ids": ["ghost"]}, 404),
        ({"node_ids": []}, 400),
    ],
    ids=["no-such-model", "no-such-node", "no-node"],
)
def test_nothing_is_ordered_ahead_for_what_is_not_there(url, downloads, wanted, status):
    model = httpx.get(f"{url}/api/v1/models").json()["models"][0]["name"]
    answer = httpx.post(f"{url}/api/v1/weights/fetch", json={"model": model, **wanted})
    assert (answer.status_code, downloads.asked) == (status, [])


def test_ctl_orders_ahead_and_calls_off_and_its_exit_code_tells_of_refusals(url, nodes, downloads):
    model = httpx.get(f"{url}/api/v1/models").json()["models"][0]["name"]
    done = ctl(url, model, "--node", nodes[0], noun="fetch")
    assert (done.returncode, downloads.asked) == (0, [(nodes[0], ("fetch", NAMED))])
    downloads.kept = {nodes[1]: "nobody has ordered it"}
    off = ctl(url, model, "--node", nodes[1], "--cancel", noun="fetch")
    assert off.returncode == 5
    assert "nobody has ordered it" in off.stdout
    assert downloads.asked[-1] == (nodes[1], ("call off", NAMED))
