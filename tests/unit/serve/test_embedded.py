"""The settings of ``llmgw up``: its own defaults lose against everybody else."""

from __future__ import annotations

import pytest
import yaml

from llmgw.errors import Invalid
from llmgw.serve import embedded
from llmgw.serve.embedded import Wishes


@pytest.fixture
def data(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "a.gguf").touch()
    return tmp_path


def load(data, *, environ=None, **wishes):
    return embedded.load(Wishes(data=data, **wishes), environ=environ or {})


def test_everything_is_on_loopback_and_below_the_data_folder(data):
    up = load(data)
    assert up.server.listen == "127.0.0.1:8080"
    assert up.server.admin_listen == "127.0.0.1:9090"
    assert up.server.agent_listen == "127.0.0.1:0"
    assert up.agent.mgmt_addr == "127.0.0.1"
    folders = (
        up.server.state_dir,
        up.server.run_dir,
        up.agent.weights_dir,
        up.agent.supervisor.work_dir,
    )
    assert all(folder.startswith(str(data)) for folder in folders)


def test_one_question_needs_no_port_of_its_own(data):
    up = load(data, is_once=True)
    assert (up.server.listen, up.server.admin_listen) == ("127.0.0.1:0", "127.0.0.1:0")


def test_one_question_is_not_asked_where_keys_are_on(data):
    file = data / "server.yaml"
    file.write_text("auth: {enabled: true}\n")
    with pytest.raises(Invalid, match="LLMGW_AUTH__ENABLED=false"):
        load(data, config=file, is_once=True)
    assert load(data, config=file).server.auth.enabled
    environ = {"LLMGW_AUTH__ENABLED": "false"}
    assert not load(data, config=file, environ=environ, is_once=True).server.auth.enabled


def test_environment_wins_over_the_defaults_and_options_over_it(data):
    environ = {
        "LLMGW_LISTEN": "127.0.0.1:1111",
        "LLMGW_ADMIN_LISTEN": "127.0.0.1:2222",
        "LLMGW_ENGINES__LLAMACPP__PARALLEL": "7",
        "LLMGW_NODE_ID": "mine",
    }
    up = load(data, environ=environ, admin_listen="127.0.0.1:3333")
    assert (up.server.listen, up.server.admin_listen) == ("127.0.0.1:1111", "127.0.0.1:3333")
    assert up.agent.engines.llamacpp.parallel == 7
    assert up.agent.node_id == "mine"


def test_models_of_a_file_are_served_and_not_those_of_the_folder(data):
    file = data / "server.yaml"
    profile = {"name": "cpu", "engine": "sim"}
    file.write_text(
        yaml.safe_dump({"models": [{"name": "m", "source": "s", "profiles": [profile]}]})
    )
    assert [model.name for model in load(data, config=file).server.models] == ["m"]


def test_a_named_model_is_the_only_one(data):
    up = load(data, model="https://host/b.Q4_0.gguf", name="mine")
    assert [model.name for model in up.server.models] == ["mine"]


def test_without_any_model_it_is_told_how_to_get_one(tmp_path):
    with pytest.raises(Invalid, match="llmgw up --model"):
        load(tmp_path)


def test_a_store_may_have_models_so_none_need_be_declared(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "store.db").touch()
    up = load(tmp_path)
    assert (up.server.models, up.data) == ((), tmp_path)


def test_a_name_without_a_model_is_refused(data):
    with pytest.raises(Invalid, match="--model"):
        load(data, name="mine")


def test_an_agent_port_of_a_file_stays_shut(data):
    file = data / "server.yaml"
    file.write_text("agent_listen: ':7443'\nagent_tls: {ca: a, cert: b, key: c}\n")
    up = load(data, config=file)
    assert (up.server.agent_listen, up.server.agent_tls) == ("127.0.0.1:0", None)
