"""Why a machine does not let us in is read from what OpenSSH and sudo say."""

from __future__ import annotations

import pytest
from ansible_collections.llmgw.fleet.plugins.filter.reaching import reach_mistake, reach_refusal

SSH = "Failed to connect to the host via ssh: "
CHANGED = {
    "unreachable": True,
    "msg": f"{SSH}@@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@@",
}
PINNED = {"unreachable": True, "msg": f"{SSH}Host key verification failed."}
LOGIN = {"unreachable": True, "msg": f"{SSH}ops@10.0.0.145: Permission denied (publickey)."}
SUDO = {"rc": 1, "msg": "Missing sudo password", "stderr": "sudo: a password is required\n"}
SUDOERS = {"rc": 1, "stdout": "ops is not in the sudoers file.\r\n"}
AWAY = {"unreachable": True, "msg": f"{SSH}connect to host 10.0.0.145 port 22: No route to host"}
IN = {"rc": 0, "stdout": "", "stderr": "Warning: Permanently added the host", "changed": False}
WAITED = {"changed": False, "elapsed": 12}
TIMED_OUT = {"changed": False, "failed": False, "msg": "timed out waiting for ping: no route"}


def mistake(result, **words):
    return reach_mistake(result, "node05", "10.0.0.145", user="ops", **words)


@pytest.mark.parametrize(
    ("result", "refusal", "does"),
    [
        (CHANGED, "host_key", "forget the old key with ssh-keygen -R 10.0.0.145"),
        (PINNED, "host_key", "find out who answers there"),
        (LOGIN, "login", "node05: ops@10.0.0.145 does not take our key"),
        (SUDO, "root", "node05: ops@10.0.0.145 may not become root"),
        (SUDOERS, "root", "--ask-become-pass"),
    ],
    ids=["changed", "pinned", "login", "sudo", "sudoers"],
)
def test_a_refusal_is_told_apart_and_says_what_to_do(result, refusal, does):
    assert reach_refusal(result) == refusal
    assert does in mistake(result)


@pytest.mark.parametrize("result", [IN, WAITED], ids=["at-once", "after-a-wait"])
def test_a_machine_that_lets_us_in_is_no_mistake(result):
    assert reach_refusal(result) == ""
    assert mistake(result) == ""


@pytest.mark.parametrize("result", [AWAY, TIMED_OUT], ids=["unreachable", "timed-out"])
def test_a_machine_that_does_not_answer_is_named_with_how_long_it_was_tried(result):
    assert reach_refusal(result) == ""
    said = mistake(result, waited_s="180")
    assert said.startswith("node05: ops@10.0.0.145 did not let us in within 180 s (")
    assert "oute" in said
    assert "see that the machine runs" in said


def test_a_wait_that_ends_in_a_refusal_is_that_refusal():
    result = {"failed": False, "msg": f"timed out waiting for ping module test: {LOGIN['msg']}"}
    assert "does not take our key" in mistake(result, waited_s=180)


def test_a_shell_that_does_not_run_a_command_is_named():
    assert "This account is not available" in mistake(
        {"rc": 1, "stdout": "This account is not available.\n"}
    )


def test_without_a_user_only_the_address_is_named():
    assert reach_mistake(LOGIN, "node05", "10.0.0.145").startswith("node05: 10.0.0.145 does not")
