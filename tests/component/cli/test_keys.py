"""``llmgw keys``: what an operator types about keys, on a store of its own."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3

import pytest

from llmgw.cli.failures import ExitCode
from tests.fakes import commands
from tests.fakes.stores import make_room

KEY = re.compile(r"sk-[\w-]{43}")


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Runs ``llmgw keys``; its store has the first places."""
    monkeypatch.setenv("LLMGW_AUTH__STORE", str(tmp_path / "store.db"))

    def run(*words):
        return commands.here("keys", *words)

    assert run("init", "--org", "acme").returncode == ExitCode.OK
    return run


def document(done):
    assert done.returncode == ExitCode.OK, done.stderr
    return json.loads(done.stdout)


def test_init_may_be_run_again_and_renames_what_it_is_told_to(keys):
    again = keys("init")
    assert again.stdout == "acme/default/default: is there, nothing changed\n"
    assert keys("init", "--project", "chat").stdout == "acme/default/chat: made\n"
    assert document(keys("init", "--json"))["changed"] is False


def test_a_key_is_shown_once_and_listed_by_its_begin(keys):
    made = keys("create", "notebook", "--rpm", "60", "--models", "llama,embed", "--expires", "90d")
    (secret,) = KEY.findall(made.stdout)
    listed = keys("list")
    assert f"{secret[:11]}…" in listed.stdout
    assert secret not in listed.stdout
    shown = keys("show", secret[:11])
    assert re.search(r"key:key-\w+ +60 requests a minute; models embed, llama", shown.stdout)
    assert [
        level["scope"] for level in document(keys("show", secret[:11], "--json"))["levels"]
    ] == [
        "org",
        "team",
        "project",
        "key",
    ]


def test_a_link_is_printed_instead_of_the_key_and_leads_to_the_gateway(keys):
    made = keys("create", "phone", "--claim", "--base-url", "https://llm.example.org/")
    assert re.search(r"LINK +https://llm\.example\.org/claim/[\w-]{43}\n", made.stdout)
    assert not KEY.search(made.stdout)
    for wrong in ([], ["--base-url", "llm.example.org"]):
        refused = keys("create", "phone", "--claim", *wrong)
        assert (refused.returncode, "--base-url" in refused.stderr) == (ExitCode.USAGE, True)


def test_a_key_is_rotated_moved_and_revoked(keys):
    made = document(keys("create", "ci", "--json"))
    keys("add-project", "batch")
    rotated = document(keys("rotate", made["id"], "--overlap", "1h", "--json"))
    assert rotated["id"] == made["id"]
    assert rotated["key"] != made["key"]
    moved = keys("move", made["id"], "--project", "batch")
    assert moved.stdout == f"{made['id']} is in acme/default/batch now\n"
    assert keys("revoke", made["id"]).stdout.startswith("revoked")
    assert "was revoked already" in keys("revoke", made["id"]).stdout
    assert "--all shows them" in keys("list").stdout
    assert document(keys("list", "--all", "--json"))["keys"][0]["state"] == "revoked"
    refused = keys("rotate", made["id"])
    assert refused.returncode == ExitCode.REFUSED


def test_places_are_added_limited_renamed_and_shown(keys):
    keys("add-org", "globex")
    keys("add-team", "lab", "--org", "globex")
    keys("add-project", "chat", "--team", "globex/lab")
    keys("rename", "team", "globex/lab", "research")
    limited = keys(
        *("limits", "--scope", "org", "--id", "globex"),
        *("--budget", "5_000", "--period", "month", "--models", ""),
    )
    assert re.fullmatch(r"org:\S+: 5000 micro-units a month; models none\n", limited.stdout)
    assert "globex/research/chat" in keys("tree").stdout
    taken = keys(
        "limits", "--scope", "org", "--id", "globex", "--budget", "none", "--models", "none"
    )
    assert taken.stdout.endswith(": no limits\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("create x --project nosuch", ExitCode.UNKNOWN, "llmgw keys tree"),
        ("create x --owner ann@example.org", ExitCode.UNKNOWN, "llmgw users list"),
        ("create x --band nosuch", ExitCode.USAGE, "give one of"),
        ("create x --claim-for 1h", ExitCode.USAGE, "give --claim as well"),
        ("create x --rpm 0", ExitCode.USAGE, "give 1 to"),
        ("create x --rpm many", ExitCode.USAGE, "neither a whole number"),
        ("create x --expires 2020-01-01", ExitCode.USAGE, "give a time to come"),
        ("create x --expires nan", ExitCode.USAGE, "is no time"),
        ("create x --expires 99999999d", ExitCode.USAGE, "after the year 9999"),
        ("show \udcff", ExitCode.USAGE, "not UTF-8"),
        ("add-org \udcff", ExitCode.USAGE, "not UTF-8"),
        ("show nosuch", ExitCode.UNKNOWN, "llmgw keys list"),
        ("revoke nosuch", ExitCode.UNKNOWN, "llmgw keys list"),
        ("limits --scope team --id nosuch --rpm 1", ExitCode.UNKNOWN, "llmgw keys tree"),
        ("add-org acme", ExitCode.REFUSED, "already"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(keys, words, code, said):
    done = keys(*words.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_key_without_a_name_is_no_key(keys):
    done = keys("show", "")
    assert (done.returncode, "its id or its begin" in done.stderr) == (ExitCode.USAGE, True)


def test_every_act_is_in_the_log_refused_ones_too(keys, tmp_path):
    keys("create", "x", "--rpm", "0")
    key = document(keys("create", "x", "--json"))
    keys("revoke", key["id"])
    assert acts(tmp_path) == [
        ("tree.init", "done"),
        ("key.create", "invalid"),
        ("key.create", "done"),
        ("key.revoke", "done"),
    ]


def acts(folder):
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as connection:
        return connection.execute("SELECT action, outcome FROM audit ORDER BY entry_id").fetchall()


def test_without_a_store_it_is_said_how_to_have_one(monkeypatch, tmp_path):
    monkeypatch.delenv("LLMGW_AUTH__STORE", raising=False)
    (tmp_path / "server.yaml").write_text("listen: :8080\n")
    refused = commands.here("keys", "list", "--config", str(tmp_path / "server.yaml"))
    assert (refused.returncode, "auth.store" in refused.stderr) == (ExitCode.REFUSED, True)
    empty = commands.here("keys", "list", "--store", str(tmp_path / "store.db"))
    assert "has no tables yet" in empty.stderr


def test_a_key_of_a_moved_store_is_the_same_key(keys, postgres, tmp_path):
    room = make_room(postgres)
    key = document(keys("create", "x", "--rpm", "5", "--json"))
    moved = keys("move-store", "--from", str(tmp_path / "store.db"), "--to", room)
    assert moved.returncode == ExitCode.OK, moved.stderr
    assert "api_keys: 1 rows copied\n" in moved.stdout
    shown = document(keys("show", key["prefix"], "--store", room, "--json"))
    assert (shown["id"], shown["levels"][3]["rpm"]) == (key["id"], 5)
    again = keys("move-store", "--from", str(tmp_path / "store.db"), "--to", room)
    assert (again.returncode, "is not empty" in again.stderr) == (ExitCode.REFUSED, True)
