"""Settings of keys and people: what must be set together."""

from __future__ import annotations

import pytest
import yaml

from llmgw.config.loading import load_server
from llmgw.errors import SettingsInvalid

OIDC = {
    "issuer": "https://login.example",
    "client_id": "llmgw",
    "client_secret": "@/etc/llmgw/oidc",
    "projects": {"research": "p1"},
}
AUTH = {
    "enabled": True,
    "store": "/var/lib/llmgw/store.db",
    "public_url": "https://llm.example",
    "oidc": OIDC,
}


@pytest.fixture
def load(tmp_path):
    def loaded(auth):
        file = tmp_path / "server.yaml"
        file.write_text(yaml.safe_dump({"auth": auth}))
        return load_server(file, environ={}).auth

    return loaded


def test_keys_are_not_asked_for_unless_it_is_said(load):
    assert load({}).enabled is False
    assert load({}).signup_open is True


def test_everything_of_a_provider_is_read(load):
    auth = load(AUTH)
    assert (auth.oidc.issuer, auth.oidc.projects) == ("https://login.example", {"research": "p1"})


@pytest.mark.parametrize(
    "issuer", ["http://127.0.0.1:80", "http://localhost:80", "http://[::1]:80"]
)
def test_a_provider_on_loopback_may_speak_plainly(load, issuer):
    assert load({**AUTH, "oidc": {**OIDC, "issuer": issuer}}).oidc.issuer == issuer


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"store": ""}, "auth.enabled"),
        ({"public_url": None}, "auth.oidc"),
        ({"oidc": {**OIDC, "scopes": ["openid"]}}, "auth.oidc.scopes"),
        ({"oidc": {**OIDC, "issuer": "http://login.example"}}, "auth.oidc.issuer"),
        ({"oidc": {**OIDC, "client_secret": "plain"}}, "auth.oidc.client_secret"),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_written(load, changed, path):
    with pytest.raises(SettingsInvalid) as refused:
        load({**AUTH, **changed})
    assert [problem.path for problem in refused.value.problems] == [path]
