"""Addresses of stores: what may be written, and that no password is ever said."""

from __future__ import annotations

import pytest

from llmgw.config import store_address
from llmgw.config.loading import load_server
from llmgw.errors import Invalid, SettingsInvalid

URL = "postgresql://llmgw:hunter2@db:5432/llmgw?sslmode=require"


def test_a_path_is_a_file():
    address = store_address.parse("/var/lib/llmgw/store.db")
    assert str(address.path) == address.shown == "/var/lib/llmgw/store.db"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_is_postgresql_and_shown_without_password_and_options(scheme):
    given = URL.replace("postgresql", scheme)
    address = store_address.parse(given)
    assert (address.path, address.url) == (None, given)
    assert address.shown == "postgresql://llmgw@db:5432/llmgw"
    assert "hunter2" not in repr(address)


def test_several_hosts_and_a_socket_are_left_to_the_library():
    assert store_address.parse("postgresql://u@a:1,b:2/d").shown == "postgresql://u@a:1,b:2/d"
    assert store_address.parse("postgresql:///d?host=/run").shown == "postgresql:///d"


@pytest.mark.parametrize("form", ["@{file}", "${{STORE}}"])
def test_a_reference_is_followed_when_it_is_used(tmp_path, form):
    file = tmp_path / "store"
    file.write_text(f"{URL}\n")
    address = store_address.resolve(form.format(file=file), environ={"STORE": URL})
    assert address == store_address.parse(URL)


@pytest.mark.parametrize(
    "wrong",
    ["store.db", "mysql://u:hunter2@h/d", "postgresql://u:hunter2@h", "postgresql://[u:hunter2/d"],
)
def test_what_is_no_address_is_told_without_repeating_it(wrong):
    with pytest.raises(Invalid) as refused:
        store_address.parse(wrong)
    assert "hunter2" not in refused.value.message
    with pytest.raises(SettingsInvalid) as refused:
        load_server(None, environ={"LLMGW_AUTH__STORE": wrong})
    assert [problem.path for problem in refused.value.problems] == ["auth.store"]
    assert "hunter2" not in str(refused.value.problems)


def test_a_password_is_in_no_repr_of_settings():
    settings = load_server(None, environ={"LLMGW_AUTH__STORE": URL})
    assert settings.auth.store == URL
    assert "hunter2" not in repr(settings)


def test_a_lease_that_one_late_answer_would_end_is_refused():
    with pytest.raises(SettingsInvalid) as refused:
        load_server(None, environ={"LLMGW_LEADER__EVERY_S": "4s"})
    assert "twice leader.every_s" in str(refused.value.problems[0])
