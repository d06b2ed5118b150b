"""What templates of the roles are given: settings of an agent, builds, packages, masked secrets."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmgw.fleet.plugins.filter import agent_settings as settings
from ansible_collections.llmgw.fleet.plugins.filter import machines, mask

agent_settings, agent_mistakes = settings.agent_settings, settings.agent_mistakes
TLS = {
    "ca": "/etc/llmgw/ca.pem",
    "cert": "/etc/llmgw/agent.pem",
    "key": "/etc/llmgw/agent-key.pem",
}


def test_an_agent_with_one_server_is_told_that_and_no_more():
    given = {"servers": ["https://10.0.0.10:7443"], "node_id": "node05", "hostname": "node05"}
    assert agent_settings(given) == {"server": "https://10.0.0.10:7443", "tls": TLS}


def test_several_servers_keep_their_order():
    servers = ["https://b:7443", "https://a:7443"]
    assert agent_settings({"servers": servers}) == {"servers": servers, "tls": TLS}


def test_a_node_id_is_written_only_where_the_hostname_is_another():
    made = agent_settings({"servers": "https://a:7443", "node_id": "node05", "hostname": "old"})
    assert made["node_id"] == "node05"


def test_overrides_are_written_only_when_given():
    given = {
        "servers": ["https://a:7443"],
        "mgmt_addr": "",
        "labels": {},
        "model_dirs": [],
        "fabrics": [],
        "nvidia_smi": None,
        "llamacpp_bin": "",
        "overrides": {},
    }
    assert set(agent_settings(given)) == {"server", "tls"}


def test_what_is_given_stands_where_the_agent_reads_it():
    made = agent_settings(
        {
            "servers": ["https://a:7443"],
            "mgmt_addr": "10.0.0.145",
            "labels": {"rack": "r1"},
            "model_dirs": ["/srv/models"],
            "nvidia_smi": "/opt/nvidia-smi",
            "ib_root": "/sys/ib",
            "llamacpp_bin": "/opt/llama-server",
            "overrides": {"engines": {"llamacpp": {"parallel": 2}}, "log": {"level": "debug"}},
        }
    )
    assert made == {
        "server": "https://a:7443",
        "tls": TLS,
        "mgmt_addr": "10.0.0.145",
        "labels": {"rack": "r1"},
        "model_dirs": ["/srv/models"],
        "discovery": {"nvidia_smi": "/opt/nvidia-smi", "ib_root": "/sys/ib"},
        "engines": {"llamacpp": {"bin": "/opt/llama-server", "parallel": 2}},
        "log": {"level": "debug"},
    }


def test_a_plaintext_server_is_written_without_certificates():
    assert agent_settings({"servers": ["http://127.0.0.1:7443"]}) == {
        "server": "http://127.0.0.1:7443"
    }


def test_other_places_of_the_certificates_replace_the_usual_ones_one_by_one():
    made = agent_settings({"servers": ["https://a:7443"], "tls": {"ca": "/other/ca.pem"}})
    assert made["tls"] == {**TLS, "ca": "/other/ca.pem"}


@pytest.mark.parametrize(
    ("fabric", "hcas"),
    [
        ("ib0", ["mlx5_0", "mlx5_1"]),
        ("ib0:mlx5_2, mlx5_3", ["mlx5_2", "mlx5_3"]),
        ({"name": "ib0"}, ["mlx5_0", "mlx5_1"]),
        ({"name": "ib0", "hcas": ["mlx5_4"]}, ["mlx5_4"]),
    ],
    ids=str,
)
def test_a_fabric_has_the_usual_adapters_unless_it_names_some(fabric, hcas):
    made = agent_settings({"servers": ["https://a:7443"], "fabrics": [fabric]})
    assert made["fabrics"] == [{"name": "ib0", "hcas": hcas}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"servers": []}, "has no control plane to dial: set fleet_servers"),
        ({"servers": ["https://a:7443"], "fabric": ["ib0"]}, "there is no setting fabric"),
        (
            {"servers": ["https://a:7443"], "fabrics": ["ib0:mlx5_0", "ib1:mlx5_0"]},
            "mlx5_0 is in the fabrics ib0 and ib1",
        ),
        ({"servers": ["https://a:7443"], "fabrics": ["ib0:a", "ib0:b"]}, "more than once"),
        ({"servers": ["https://a:7443"], "fabrics": [{"hcas": ["a"]}]}, "it has no name"),
        ({"servers": ["https://a:7443"], "fabrics": [7]}, "7 is no fabric"),
        ({"servers": ["https://a:7443"], "node_id": "Node_5"}, "'Node_5' is no node name"),
        (
            {"servers": ["https://a:7443"], "fabrics": [{"name": "ib0", "rate_gbps": "fast"}]},
            "ib0 has the rate_gbps 'fast': give a number",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_cannot_be_meant_are_refused(given, said):
    with pytest.raises(AnsibleFilterError, match=said):
        agent_settings(given)
    (mistake,) = agent_mistakes(given)
    assert said in mistake


def test_all_mistakes_of_an_agent_are_known_at_once():
    found = agent_mistakes({"fabric": "ib0", "fabrics": ["ib0:a", "ib0:b", "ib1:a"]})
    assert len(found) == 4


def test_one_fabric_may_be_typed_on_a_command_line():
    made = agent_settings({"servers": "https://a:7443", "fabrics": "ib0:mlx5_0,mlx5_1"})
    assert made["fabrics"] == [{"name": "ib0", "hcas": ["mlx5_0", "mlx5_1"]}]


@pytest.mark.parametrize(
    ("facts", "python", "tag"),
    [
        ({"architecture": "x86_64", "python_version": "3.11.2"}, "", "cp311-manylinux-x86_64"),
        ({"architecture": "x86_64", "python_version": "3.9.18"}, "3.12", "cp312-manylinux-x86_64"),
        ({"architecture": "aarch64"}, "3.13.1", "cp313-manylinux-aarch64"),
        ({"architecture": "arm64"}, "3.13", "cp313-manylinux-aarch64"),
    ],
)
def test_wheels_are_those_of_the_machines_python_and_processor(facts, python, tag):
    assert machines.wheel_tag(facts, python) == tag


@pytest.mark.parametrize(
    ("facts", "python", "said"),
    [
        ({"architecture": "riscv64"}, "3.12", "not for riscv64"),
        ({}, "3.12", "gather its facts"),
        ({"architecture": "x86_64"}, "", "name no Python version"),
        ({"architecture": "x86_64"}, "three", "'three' is no Python version"),
    ],
)
def test_a_machine_without_wheels_is_refused_by_what_it_is(facts, python, said):
    with pytest.raises(AnsibleFilterError, match=said):
        machines.wheel_tag(facts, python)


@pytest.mark.parametrize(
    ("facts", "family"),
    [
        ({"os_family": "Debian", "pkg_mgr": "apt"}, "deb"),
        ({"os_family": "RedHat", "pkg_mgr": "dnf"}, "rpm"),
        ({"os_family": "Suse", "pkg_mgr": "zypper"}, "rpm"),
        ({"os_family": "NewName", "pkg_mgr": "dnf5"}, "rpm"),
        ({"os_family": "Alpine", "pkg_mgr": "apk"}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_packages_are_named_by_the_family_of_the_system(facts, family):
    assert machines.distro_family(facts) == family


def test_secrets_are_hidden_at_any_depth_and_nothing_else_is():
    shown = mask.mask(
        {
            "url": "https://pve:8006",
            "api_token": "t0k3n",
            "nested": [{"Password": "p4ss", "user": "root"}],
            "key": "/etc/llmgw/agent-key.pem",
            "text": "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb",
            "password": "",
            "pin": "1234",
        },
        "pin",
    )
    assert shown == {
        "url": "https://pve:8006",
        "api_token": "********",
        "nested": [{"Password": "********", "user": "root"}],
        "key": "/etc/llmgw/agent-key.pem",
        "text": "a\n********\nb",
        "password": "",
        "pin": "********",
    }


def test_a_template_finds_every_filter_and_the_test_by_their_names(controller):
    checks = [
        "'10.0.0.145/24' | llmgw.fleet.ip_of == '10.0.0.145'",
        "'10.0.0.145/24' | llmgw.fleet.last_octet == 145",
        "'10.0.0.45/24' | llmgw.fleet.default_vmid(1000) == 1045",
        "'localhost' in (ansible_facts | llmgw.fleet.cert_hosts('llm.lab'))",
        "ansible_facts | llmgw.fleet.wheel_tag('3.12') is match('cp312-manylinux-')",
        "ansible_facts | llmgw.fleet.distro_family in ['deb', 'rpm', '']",
        "({'servers': ['https://a:7443']} | llmgw.fleet.agent_settings).server == 'https://a:7443'",
        "({'token': 'x'} | llmgw.fleet.mask).token == '********'",
        "'node05' is llmgw.fleet.node_name",
        "'Node_5' is not llmgw.fleet.node_name",
    ]
    asserted = {"name": "all", "ansible.builtin.assert": {"that": checks}}
    played = controller.play(asserted, play={"gather_facts": True})
    assert played.rc == 0, played.output
