"""``llmgw ctl model`` and ``ctl scale`` as a person and a program meet them."""

from __future__ import annotations

import dataclasses
import json
import stat

import pytest
import yaml

from llmgw.api.application import create_app
from llmgw.domain.catalog import Model
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeReadiness, catalogs_of, control_of
from tests.fakes.listening import listening
from tests.fakes.stored_models import SIM, StoredModelsInMemory, row, written

BIG = Model("big", "org/big", aliases=("large",))
SMALL = written("small", scaling={"min": 1, "idle_timeout": "45m"}, description="für alle")


@pytest.fixture
def stored():
    return StoredModelsInMemory(row("small", SMALL))


@pytest.fixture
def fleet():
    return FakeFleet()


@pytest.fixture
def admin(fleet, stored):
    control = dataclasses.replace(control_of(fleet), catalogs=catalogs_of((BIG,), stored))
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


@pytest.fixture
def without_store():
    control = dataclasses.replace(control_of(FakeFleet()), catalogs=catalogs_of((BIG,), None))
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "model.yaml"

    def write(content):
        made.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(made)

    return write


def ctl(url, *words):
    return commands.here("ctl", "--admin", url, *words)


def lines(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_model_is_added_and_told_how_to_wait_for_it(admin, stored, file):
    done = ctl(admin, "model", "add", "-f", file(written("new")))
    assert lines(done) == [
        "+ new added",
        "sim: a name that the engine resolves itself; only it can tell whether it is there",
        "'llmgw ctl wait new' waits until it serves",
    ]
    assert stored.rows["new"].definition == written("new")


def test_a_trial_says_what_would_change_and_changes_nothing(admin, stored, file):
    other = {**SMALL, "scaling": {"min": 2}, "profiles": [{**SIM["profiles"][0], "args": ["--x"]}]}
    done = ctl(admin, "model", "add", "-f", file(other), "--replace", "--dry-run")
    assert lines(done) == [
        "~ small would be changed",
        '    profiles[cpu].args: not set -> ["--x"]',
        "    scaling.idle_timeout: 45m -> not set",
        "    scaling.min: 1 -> 2",
        "    replicas of cpu run on as they are; 'llmgw ctl model roll small' replaces them",
    ]
    assert stored.writes == 0


def test_a_program_gets_one_document(admin, file):
    told = json.loads(ctl(admin, "model", "add", "-f", file(written("new")), "--json").stdout)
    assert [c["kind"] for c in told["changes"]] == ["add"]
    assert told["entry"]["origin"] == "stored"


def test_every_mistake_of_a_file_is_told_with_its_path(admin, stored, file):
    done = ctl(admin, "model", "add", "-f", file(written("new", surce="x", aliases=["large"])))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("llmgw: nothing was changed: 2 mistake(s)")
    assert "  surce: unknown key of a model" in done.stderr
    assert "  aliases[0]: 'large' is taken by the declared model big" in done.stderr
    assert stored.writes == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is no YAML"),
        ("- 5", "a model is a mapping"),
        ("models: []", "0 models in it"),
        ("name: a\nname: b\nsource: x", "the key name is written twice"),
        ("models: []\nlisten: :1", "beside models there is listen"),
    ],
    ids=["no-yaml", "no-mapping", "none", "twice", "settings"],
)
def test_a_file_that_is_no_model_is_told(admin, file, content, says):
    done = ctl(admin, "model", "add", "-f", file(content))
    assert done.returncode == 2
    assert says in done.stderr


def test_a_file_that_is_not_there_is_told(admin, tmp_path):
    done = ctl(admin, "model", "add", "-f", str(tmp_path / "nosuch.yaml"))
    assert done.returncode == 2
    assert "check the path after -f" in done.stderr


def test_a_dead_mirror_is_refused_but_for_those_who_insist(admin, stored, file):
    dead = file(written("new", source="http://127.0.0.1:1/m.gguf"))
    done = ctl(admin, "model", "add", "-f", dead)
    assert done.returncode == 2
    assert "source: http://127.0.0.1:1/m.gguf is unreachable from the control plane" in done.stderr
    assert "--no-source-check" in done.stderr
    assert "new" not in stored.rows
    assert ctl(admin, "model", "add", "-f", dead, "--no-source-check").returncode == 0
    assert "new" in stored.rows


def test_without_a_store_it_says_so_and_what_to_do(without_store, file):
    done = ctl(without_store, "model", "add", "-f", file(written("new")))
    assert done.returncode == 5
    assert "no store" in done.stderr
    assert "auth.store" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("model", "remove", "big"),
        ("scale", "large", "--min", "2"),
        ("model", "fallbacks", "big", "small"),
        ("model", "describe", "big", "x"),
    ],
    ids=" ".join,
)
def test_a_declared_model_is_refused_with_where_to_edit_it(admin, stored, words):
    done = ctl(admin, *words)
    assert done.returncode == 5
    assert "big is declared in the settings of the server; change it there" in done.stderr
    assert stored.writes == 0


def test_a_model_is_removed(admin, stored):
    assert lines(ctl(admin, "model", "remove", "small")) == [
        "- small removed",
        "    its replicas drain and stop",
    ]
    assert stored.rows == {}
    assert ctl(admin, "model", "remove", "small").returncode == 4


def test_scaling_changes_nothing_else_and_tells_what_is_in_force(admin, stored):
    done = ctl(admin, "scale", "small", "--min", "3")
    assert lines(done) == [
        "~ small changed",
        "    scaling.min: 1 -> 3",
        "small: min 3, max 3, idle_timeout 45m",
    ]
    expected = {**SMALL, "scaling": {"min": 3, "idle_timeout": "45m"}}
    assert json.dumps(stored.rows["small"].definition) == json.dumps(expected)


def test_a_scaling_that_cannot_be_is_refused_and_leaves_the_row_as_it_was(admin, stored):
    before = stored.rows["small"]
    done = ctl(admin, "scale", "small", "--min", "3", "--max", "2")
    assert done.returncode == 2
    assert "scaling.max: 2 is less than min 3" in done.stderr
    assert stored.rows["small"] is before


def test_fallbacks_and_descriptions_are_changed(admin, stored):
    assert lines(ctl(admin, "model", "fallbacks", "small", "large"))[1] == (
        '    fallbacks: not set -> ["large"]'
    )
    assert lines(ctl(admin, "model", "describe", "small", "quick"))[1] == (
        "    description: für alle -> quick"
    )
    assert stored.rows["small"].definition["fallbacks"] == ["large"]
    assert lines(ctl(admin, "model", "describe", "small", "quick")) == [
        "nothing has changed: it is so already"
    ]


def test_a_failed_model_is_tried_again(admin, fleet):
    assert lines(ctl(admin, "model", "retry", "large"))[0] == "big is ready"
    assert fleet.retried == ["large"]


def test_a_model_is_shown_as_it_was_written(admin, fleet, stored):
    view = dataclasses.replace(fleet.model_views[-1], origin="stored", stale=1)
    assert view.name == "small"
    fleet.model_views = [*fleet.model_views[:-1], view]
    shown = lines(ctl(admin, "model", "show", "small"))
    assert shown[0].split() == ["MODEL", "small"]
    assert "stored, added 1970-01-01 00:00:01Z by ann" in "\n".join(shown)
    assert "PROFILE cpu" in "\n".join(shown)
    assert yaml.safe_load("\n".join(shown[shown.index("") :])) == SMALL
    told = json.loads(ctl(admin, "model", "show", "small", "--json").stdout)
    assert (told["definition"], told["stale"], told["revision"]) == (SMALL, 1, 1)
    assert ctl(admin, "model", "show", "nosuch").returncode == 4


def test_what_is_exported_is_applied_without_a_change(admin, stored, tmp_path):
    out = tmp_path / "catalog.yaml"
    assert lines(ctl(admin, "model", "export", "-o", str(out))) == [f"{out}: 2 model(s)"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "# declared in the settings of the server" in out.read_text()
    assert "für alle" in out.read_text()
    assert lines(ctl(admin, "model", "diff", "-f", str(out), "--prune")) == ["nothing changes"]
    assert lines(ctl(admin, "model", "apply", "-f", str(out), "--prune")) == [
        "nothing has changed: it is so already"
    ]
    assert stored.writes == 0
    again = ctl(admin, "model", "export", "-o", str(out))
    assert again.returncode == 5
    assert ctl(admin, "model", "export").stdout == out.read_text()


def test_a_file_is_compared_and_applied_as_one(admin, stored, file):
    wanted = file({"models": [written("new"), written("more", fallbacks=["new"])]})
    done = ctl(admin, "model", "diff", "-f", wanted, "--prune")
    assert done.returncode == 7
    assert done.stdout.splitlines() == [
        "+ more would be added",
        "+ new would be added",
        "- small would be removed",
        "    its replicas drain and stop",
    ]
    assert stored.writes == 0
    assert "- small removed" not in lines(ctl(admin, "model", "apply", "-f", wanted))
    assert stored.rows.keys() == {"small", "new", "more"}
    assert "- small removed" in lines(ctl(admin, "model", "apply", "-f", wanted, "--prune"))
    assert stored.writes == 2


def test_of_a_file_with_one_mistake_nothing_is_applied(admin, stored, file):
    wanted = file([written("new"), written("bad", fallbacks=["nosuch"])])
    done = ctl(admin, "model", "apply", "-f", wanted, "--prune")
    assert done.returncode == 2
    assert "bad.fallbacks[0]: 'nosuch' is neither a model nor an alias" in done.stderr
    assert stored.rows.keys() == {"small"}


def test_a_skipped_row_is_a_comment_of_the_export(admin, stored):
    stored.rows["bad"] = row("bad", "garbage")
    ctl(admin, "model", "describe", "small", "x")
    assert "# The stored model bad is left out of the catalog" in (
        ctl(admin, "model", "export").stdout
    )


def test_the_list_is_the_catalog(admin):
    assert lines(ctl(admin, "model", "list")) == lines(ctl(admin, "models"))


def test_a_skipped_row_is_told_below_the_list(admin, stored):
    stored.rows["bad"] = row("bad", "garbage")
    ctl(admin, "model", "describe", "small", "x")
    assert lines(ctl(admin, "models"))[-1] == (
        "the stored model bad is left out of the catalog: its definition cannot be read"
    )


def test_a_changed_secret_is_told_as_changed_and_not_shown(admin, stored, file):
    def with_token(token):
        return {**SMALL, "profiles": [{**SIM["profiles"][0], "env": {"TOKEN": token}}]}

    stored.rows["small"] = row("small", with_token("hunter2"))
    told = lines(ctl(admin, "model", "add", "--replace", "-f", file(with_token("other"))))
    assert told[1] == "    profiles[cpu].env.TOKEN: another value, which is not shown"
