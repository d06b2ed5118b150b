"""What a node is called and where it is reached."""

import pytest

from llmgw.agent.discovery import address
from llmgw.config.settings import AgentSettings
from llmgw.errors import Invalid, Unreachable
from llmgw.kit.addresses import Address


@pytest.mark.parametrize(
    "server", ["127.0.0.1:7443", "http://127.0.0.1:7443/", "https://127.0.0.1:1", "127.0.0.1"]
)
def test_the_address_is_the_one_on_the_way_to_the_server(server):
    who = address.identity(AgentSettings(server=server), hostname="node01")
    assert (who.node_id, who.hostname) == ("node01", "node01")
    assert (who.mgmt_addr, who.mgmt_interface) == ("127.0.0.1", "lo")


def test_written_values_win():
    settings = AgentSettings(
        node_id="n1", hostname="shown", mgmt_addr="10.0.0.5", mgmt_interface="eth9"
    )
    who = address.identity(settings, hostname="host")
    assert who == address.Identity("n1", "shown", "10.0.0.5", "eth9")


def test_any_loopback_address_is_on_the_loopback_interface():
    settings = AgentSettings(mgmt_addr="127.0.0.3")
    assert address.identity(settings, hostname="host").mgmt_interface == "lo"


def test_an_address_that_is_not_ours_has_no_interface():
    assert address.interface_of("203.0.113.77") == ""
    assert address.interface_of("node01.example.com") == ""


def test_the_next_server_is_tried_when_no_way_leads_to_the_first():
    settings = AgentSettings(server="[fe80::1]:7443", servers=("127.0.0.1:7443",))
    assert address.identity(settings, hostname="host").mgmt_addr == "127.0.0.1"


def test_no_way_at_all_says_what_to_set():
    settings = AgentSettings(server="[fe80::1]:7443")
    with pytest.raises(Unreachable, match=r"\[fe80::1\]:7443.*set mgmt_addr"):
        address.identity(settings, hostname="host")


@pytest.mark.parametrize(
    "settings", [AgentSettings(), AgentSettings(node_id="no good", mgmt_addr="127.0.0.1")]
)
def test_a_node_without_address_or_with_an_impossible_name_is_refused(settings):
    with pytest.raises(Invalid):
        address.identity(settings, hostname="host")


def test_a_host_that_is_unknown_is_unreachable():
    with pytest.raises(Unreachable, match="no way leads to"):
        address.local_address_toward(Address("fe80::1", 7443))


@pytest.mark.parametrize("written", ["192.0.2.7", "999.1.1.1", "2001:db8::7", "a" * 70])
def test_an_address_that_this_machine_does_not_have_is_warned_of(written):
    (warning,) = address.warnings(written)
    assert warning.startswith(f"engines cannot listen on the management address {written} (")


@pytest.mark.parametrize("written", ["", "127.0.0.1", "127.0.0.9", "localhost"])
def test_an_address_that_this_machine_has_is_well(written):
    assert address.warnings(written) == ()
