"""What may name a node, and what addresses say."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmgw.fleet.plugins.filter import addresses
from ansible_collections.llmgw.fleet.plugins.module_utils import _names


@pytest.mark.parametrize("name", ["node05", "a", "0", "gpu-rack1-07", "x" * 63])
def test_a_plain_name_can_be_a_nodes(name):
    assert _names.node_name_problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "Node_5",
        "NODE05",
        "x" * 64,
        "../x",
        "{{x}}",
        "{% raw %}",
        "node05\n",
        "-node",
        "node-",
        "node.lab",
        "",
        None,
        5,
    ],
    ids=repr,
)
def test_what_does_not_fit_vm_host_and_certificate_names_no_node(name):
    assert _names.node_name_problem(name)


@pytest.mark.parametrize("name", sorted(_names.RESERVED))
def test_a_word_of_the_product_or_of_ansible_names_no_node(name):
    assert "reserved" in _names.node_name_problem(name)


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("10.0.0.145/24", "10.0.0.145"),
        ("10.0.0.145", "10.0.0.145"),
        ("fd00:0::5/64", "fd00::5"),
    ],
)
def test_an_address_is_taken_without_its_prefix(address, plain):
    assert addresses.ip_of(address) == plain


def test_the_number_of_a_vm_is_the_last_of_its_address():
    assert addresses.last_octet("10.0.0.145/24") == 145
    assert addresses.default_vmid("10.0.0.145/24") == 145
    assert addresses.default_vmid("10.0.0.45/24", base=1000) == 1045


def test_a_number_that_proxmox_does_not_take_is_refused_with_the_way_out():
    with pytest.raises(AnsibleFilterError, match=r"VMID 45.*below 100.*name a vmid"):
        addresses.default_vmid("10.0.0.45/24")


@pytest.mark.parametrize("text", ["10.0.0.300/24", "node05", "", "10.0.0.1/40"])
def test_what_is_no_address_is_refused_by_name(text):
    with pytest.raises(AnsibleFilterError, match="is no address such as"):
        addresses.last_octet(text)


def test_an_ipv6_address_makes_no_number_of_a_vm():
    with pytest.raises(AnsibleFilterError, match="IPv6"):
        addresses.default_vmid("fd00::145/64")


FACTS = {
    "hostname": "control01",
    "fqdn": "control01.lab",
    "all_ipv4_addresses": ["10.0.0.10", "169.254.3.4", "127.0.0.1", "172.17.0.1"],
    "all_ipv6_addresses": ["fe80::1%eth0", "FD00:0::10", "::1"],
}


def test_a_certificate_names_all_by_which_a_machine_is_dialled():
    assert addresses.cert_hosts(FACTS, ["llm.lab", "10.0.0.10"]) == [
        "10.0.0.10",
        "127.0.0.1",
        "172.17.0.1",
        "control01",
        "control01.lab",
        "fd00::10",
        "llm.lab",
        "localhost",
    ]


def test_further_hosts_may_come_as_one_text():
    assert set(addresses.cert_hosts({}, "a.lab, b.lab,")) == {
        "127.0.0.1",
        "a.lab",
        "b.lab",
        "localhost",
    }


def test_all_hosts_that_are_none_are_named_at_once():
    with pytest.raises(AnsibleFilterError) as caught:
        addresses.cert_hosts(FACTS, ["https://llm.lab", "10.0.0.9/24", "ok.lab", "x" * 64])
    assert "'https://llm.lab'" in str(caught.value)
    assert "'10.0.0.9/24'" in str(caught.value)
    assert "xxx" in str(caught.value)
    assert "ok.lab" not in str(caught.value)
