"""Where a control plane listens is read from its settings, whoever wrote them."""

from __future__ import annotations

import pytest
from ansible_collections.llmgw.fleet.plugins.filter.listeners import listeners


def test_nothing_said_is_the_usual_place():
    assert listeners({}) == {
        "listen": {"port": 8080, "dial": "127.0.0.1:8080"},
        "admin_listen": {"port": 9090, "dial": "127.0.0.1:9090"},
        "agent_listen": {"port": 7443, "dial": "127.0.0.1:7443"},
    }


@pytest.mark.parametrize(
    ("address", "port", "dial"),
    [
        (":8081", 8081, "127.0.0.1:8081"),
        ("0.0.0.0:8081", 8081, "127.0.0.1:8081"),
        ("10.0.0.10:8081", 8081, "10.0.0.10:8081"),
        ("[::]:8081", 8081, "[::1]:8081"),
        ("[fd00::1]:8081", 8081, "[fd00::1]:8081"),
    ],
)
def test_the_host_dials_a_listener_where_it_takes_connections(address, port, dial):
    assert listeners({"listen": address})["listen"] == {"port": port, "dial": dial}


def test_the_file_that_stays_wins_and_a_variable_of_the_service_over_it():
    written = "listen: ':8081'\nagent_listen: ':7444'\n"
    found = listeners({"listen": ":1"}, written, {"LLMGW_AGENT_LISTEN": ":7445"})
    assert [found[name]["port"] for name in ("listen", "admin_listen", "agent_listen")] == [
        8081,
        9090,
        7445,
    ]


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "x", "when: 2026-13-01"])
def test_a_file_that_says_nothing_leaves_it_to_the_settings(text):
    assert listeners({"listen": ":8081"}, text)["listen"]["port"] == 8081
