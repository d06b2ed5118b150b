"""The stored catalog of a real server process: kept over a restart, damage and all."""

from __future__ import annotations

import contextlib
import sqlite3

import httpx
import pytest

from tests.fakes.deployment import Deployment, until
from tests.fakes.stored_models import written

pytestmark = pytest.mark.slow


def test_what_was_added_is_there_after_a_restart_and_damage_is_told(deployment):
    file = deployment.root / "store.db"
    server = deployment.server(
        auth={"store": str(file)}, models=[written("declared")], control={"enabled": True}
    )
    for name in ("kept", "damaged"):
        body = {"definition": written(name), "check_source": False}
        done = httpx.post(f"{deployment.admin_url}/api/v1/models", json=body, timeout=10)
        assert done.status_code == 201, done.text
    assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(file)) as store, store:
        store.execute("UPDATE models SET definition = '{' WHERE name = 'damaged'")
    server.start()
    server.wait_said(r"^clients +(\S+)")
    origins = {m["name"]: m["origin"] for m in deployment.show("models")["models"]}
    assert origins == {"declared": "declared", "kept": "stored"}
    skipped = deployment.show("status")["control"]["skipped_models"]
    assert skipped == {"damaged": "its definition cannot be read"}


@pytest.fixture
def standby(tmp_path):
    """A second server on the same store, in a folder of its own."""
    made = Deployment(tmp_path / "second")
    made.root.mkdir()
    yield made
    made.close()


def add(one, name):
    body = {"definition": written(name), "check_source": False}
    return httpx.post(f"{one.admin_url}/api/v1/models", json=body, timeout=10)


def names(one):
    return {model["name"] for model in one.show("models")["models"]}


def leads(one):
    return one.show("status")["control"]["is_leader"]


def test_a_standby_follows_the_catalog_and_has_it_when_it_leads(deployment, standby):
    wishes = {
        "auth": {"store": str(deployment.root / "store.db")},
        "control": {"enabled": True},
    }
    leader = deployment.server(**wishes)
    standby.server(**wishes)
    assert add(deployment, "early").status_code == 201
    until(lambda: names(standby) == {"early"}, "the standby has seen it")
    refused = add(standby, "other")
    assert refused.status_code == 409
    assert refused.json()["error"]["leader"] == deployment.admin_url.partition("//")[2]
    assert add(deployment, "late").status_code == 201
    assert leader.stop() == 0
    until(lambda: leads(standby), "the standby leads")
    assert names(standby) == {"early", "late"}
    assert add(standby, "other").status_code == 201
