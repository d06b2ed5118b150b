"""``llmgw users``: what an operator types about people, on a store of its own."""

from __future__ import annotations

import asyncio
import io
import json
import re

import pytest

from llmgw.accounts.signing_in import new_user_id
from llmgw.cli.failures import ExitCode
from llmgw.config import store_address
from llmgw.domain.people import User, UserState
from llmgw.store.opening import Store
from tests.fakes import commands

EMAIL = "ann@example.org"
PASSWORD = re.compile(r"[a-z2-9]{4}(?:-[a-z2-9]{4}){4}")


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "store.db"
    monkeypatch.setenv("LLMGW_AUTH__STORE", str(path))
    assert commands.here("keys", "init", "--org", "acme").returncode == ExitCode.OK
    return path


@pytest.fixture
def users(path, monkeypatch):
    def run(*words, typed=None):
        if typed is not None:
            monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return commands.here("users", *words)

    return run


@pytest.fixture
def waiting(path):
    """Somebody who has asked for an account on the page."""

    async def ask():
        store = Store(store_address.parse(str(path)))
        await store.open(may_migrate=False)
        await store.people.add(
            User(new_user_id(), EMAIL, "Ann", UserState.PENDING, 1.0, password_hash="$argon2id$")
        )
        await store.close()

    asyncio.run(ask())


def document(done):
    assert done.returncode == ExitCode.OK, done.stderr
    return json.loads(done.stdout)


def test_a_made_account_has_a_password_that_is_shown_once(users):
    made = users("create", EMAIL, "--name", "Ann", "--admin")
    (password,) = PASSWORD.findall(made.stdout)
    assert re.search(r"PROJECT +acme/default/default\n", made.stdout)
    listed = users("list")
    assert re.search(rf"{EMAIL} +Ann +active +administrator +acme/default/default", listed.stdout)
    assert password not in listed.stdout
    again = users("create", EMAIL)
    assert (again.returncode, again.stdout) == (ExitCode.REFUSED, "")
    same = document(users("create", EMAIL, "--if-absent", "--json"))
    assert (same["changed"], same["admin"], "password" in same) == (False, True, False)


def test_a_given_password_is_not_printed(users):
    made = document(users("create", EMAIL, "--password-stdin", "--json", typed="a long password\n"))
    assert "password" not in made
    short = users("create", "b@example.org", "--password-stdin", typed="short\n")
    assert (short.returncode, "12 characters" in short.stderr) == (ExitCode.USAGE, True)


def test_who_waits_is_listed_and_approved_into_a_project(users, waiting):
    assert document(users("list", "--pending", "--json"))["users"][0]["email"] == EMAIL
    nowhere = users("approve", EMAIL, "--project", "nowhere")
    assert nowhere.returncode == ExitCode.UNKNOWN
    approved = document(users("approve", EMAIL, "--json"))
    assert (approved["state"], approved["project"]) == ("active", "acme/default/default")
    assert users("list", "--pending").stdout.endswith("nobody waits\n")
    assert users("approve", EMAIL).returncode == ExitCode.REFUSED


def test_people_are_suspended_restored_promoted_and_demoted(users):
    users("create", EMAIL)
    told = [
        (shown["state"], shown["admin"])
        for act in ("suspend", "restore", "promote", "demote")
        for shown in [document(users(act, EMAIL, "--json"))]
    ]
    assert told == [("suspended", False), ("active", False), ("active", True), ("active", False)]
    assert users("restore", EMAIL).returncode == ExitCode.REFUSED
    assert users("suspend", "nobody@example.org").returncode == ExitCode.UNKNOWN


def test_a_reset_password_is_shown_once(users):
    users("create", EMAIL)
    reset = document(users("reset-password", EMAIL, "--json"))
    assert PASSWORD.fullmatch(reset["password"])


def test_every_act_is_in_the_log_of_acts_refused_ones_too(users, path):
    users("create", EMAIL)
    users("create", EMAIL)

    async def acts():
        store = Store(store_address.parse(str(path)))
        await store.open(may_migrate=False)
        found = await store.audit.page()
        await store.close()
        return [(one.action, one.target, one.origin, one.outcome) for one in found[:2]]

    assert asyncio.run(acts()) == [
        ("user.create", EMAIL, "cli", "email_taken"),
        ("user.create", EMAIL, "cli", "done"),
    ]
