"""The stored catalog of a real server process: kept over a restart, damage and all."""

from __future__ import annotations

import contextlib
import sqlite3

import httpx
import pytest

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
