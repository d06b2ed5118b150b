"""``llmgw ctl plan``, ``what-if`` and ``support-bundle`` as a person and a program meet them."""

from __future__ import annotations

import dataclasses
import json
import stat

import pytest

from llmgw.api.application import create_app
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakePlans, FakeReadiness, control_of
from tests.fakes.listening import listening


@pytest.fixture
def plans():
    return FakePlans()


@pytest.fixture
def admin(plans):
    control = dataclasses.replace(control_of(FakeFleet()), plans=plans)
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


def ctl(url, *words):
    return commands.here("ctl", *words, environ={"LLMGW_CTL_URL": url})


def test_the_next_pass_is_a_table_with_what_waits(admin):
    done = ctl(admin, "plan")
    assert (done.returncode, done.stderr) == (0, "")
    head, expire, place, _, waits, small = done.stdout.splitlines()
    assert head.split() == ["ACTION", "MODEL", "REPLICA", "NODES", "REASON"]
    assert expire.split()[:4] == ["expire_node", "-", "-", "cpu01"]
    assert place.split()[:5] == ["place", "big", "big-1a2b3c4d", "gpu01,", "gpu02"]
    assert waits.split() == ["NOT", "PLACED", "REASON"]
    assert small.split()[0] == "small"


def test_a_program_gets_the_plan_as_it_came(admin):
    told = json.loads(ctl(admin, "plan", "--json").stdout)
    assert [action["kind"] for action in told["actions"]] == ["expire_node", "place"]


def test_a_drained_node_is_asked_about_and_nothing_is_missing(admin, plans):
    done = ctl(admin, "what-if", "drain", "gpu01")
    assert done.returncode == 0, done.stderr
    assert (plans.asked[0].supposed, plans.asked[0].name) == ("drain", "gpu01")
    assert "nothing is applied" in done.stdout
    first, second = (line.split() for line in done.stdout.splitlines()[3:5])
    assert (first[:2], second[:2]) == (["0s", "place"], ["1s", "expire_node"])
    assert done.stdout.splitlines()[-1].split() == ["big", "2", "1", "2"]


def test_a_model_that_would_be_short_ends_with_7_and_says_why(admin):
    done = ctl(admin, "what-if", "lose", "gpu01", "--json")
    assert done.returncode == 7
    assert json.loads(done.stdout)["models"][0]["reason"] == "no node has a GPU"
    assert "no node has a GPU" in ctl(admin, "what-if", "lose", "gpu01").stdout


@pytest.mark.parametrize(
    "text",
    [
        "name: new\nsource: /w\n",
        "models:\n- {name: new, source: /w}\n",
        '[{"name": "new", "source": "/w"}]',
    ],
    ids=["mapping", "settings", "list"],
)
def test_a_model_in_a_file_is_asked_about(admin, plans, tmp_path, text):
    file = tmp_path / "new.yaml"
    file.write_text(text)
    done = ctl(admin, "what-if", "add", str(file))
    assert done.returncode == 0, done.stderr
    assert plans.asked[0].definition.name == "new"


def test_a_model_of_the_catalog_is_asked_about_by_name(admin, plans):
    assert ctl(admin, "what-if", "add", "big").returncode == 0
    assert (plans.asked[0].supposed, plans.asked[0].name) == ("add", "big")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["what-if", "drain", "nosuch"], 4, "has ever registered"),
        (["what-if", "add", "nosuch.yaml"], 2, "cannot read nosuch.yaml"),
    ],
    ids=["unknown node", "no such file"],
)
def test_a_mistake_says_what_is_wrong(admin, words, code, says):
    done = ctl(admin, *words)
    assert done.returncode == code
    assert says in done.stderr


def test_a_file_without_a_model_says_what_it_should_hold(admin, tmp_path):
    (tmp_path / "two.yaml").write_text("- {name: a}\n- {name: b}\n")
    done = ctl(admin, "what-if", "add", str(tmp_path / "two.yaml"))
    assert done.returncode == 2
    assert "must hold one model" in done.stderr


def test_a_mistake_in_a_definition_names_its_place(admin, tmp_path):
    (tmp_path / "m.yaml").write_text("{name: new, sorce: /w}\n")
    done = ctl(admin, "what-if", "add", str(tmp_path / "m.yaml"))
    assert done.returncode == 2
    assert "models[0].sorce" in done.stderr


def test_a_support_bundle_is_written_for_its_owner_alone_and_over_nothing(admin, tmp_path):
    file = tmp_path / "b.tar.gz"
    done = ctl(admin, "support-bundle", "--out", str(file), "--passes", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"file": str(file), "bytes": len(b"bundle of 3")}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = ctl(admin, "support-bundle", "--out", str(file))
    assert again.returncode == 5
    assert "--out" in again.stderr
