"""What stands in the way of llmgw on a host is listed, and nothing is changed to find out."""

from __future__ import annotations

import platform
import socket
import sys
import time

import pytest
from ansible_collections.llmgw.fleet.plugins.module_utils import _host_look
from ansible_collections.llmgw.fleet.plugins.modules import host_info


def look(**options):
    return {"name": "look", "llmgw.fleet.host_info": {"name": "node05", **options}}


def problems(controller, *, words=(), **options):
    played = controller.play(look(**options), words=words)
    assert played.rc == 0, played.output
    assert not played["look"].changed
    return " ".join(played["look"]["problems"])


def said_of(**asked):
    """What stands in the way of a host with a Python, where the test has changed this machine."""
    python = _host_look.Python("/usr/bin/python3", "3.12")
    unasked = {"python": "", "space": [], "ports": [], "service": "", "reach": []}
    return list(
        host_info._problems(
            {**unasked, "reach_timeout_s": 1.0, "now": None, "clock_tolerance_s": 30.0, **asked},
            python,
        )
    )


@pytest.fixture
def usual(monkeypatch, tmp_path):
    """A machine that could take llmgw, whatever this one is."""
    monkeypatch.setattr(_host_look, "_SYSTEMD", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")


def test_the_newest_python_that_has_its_library_is_named(controller):
    played = controller.play(look(python=sys.executable))
    assert played["look"]["python"]["version"] == f"3.{sys.version_info.minor}"


def test_a_host_without_a_python_is_told_which_package_to_install(controller):
    said = problems(controller, python="/usr/bin/false")
    assert "node05: no Python 3.11 or newer" in said
    assert "RHEL 9: python3.12" in said


def test_a_full_disk_is_named_with_what_is_free_and_what_is_needed(controller, tmp_path):
    space = [{"path": str(tmp_path / "not" / "there"), "bytes": 2**60}]
    said = problems(controller, space=space)
    assert "GiB free and 1.07374e+09 GiB are needed" in said
    assert not (tmp_path / "not").exists()


def test_a_port_that_another_program_holds_is_named_with_it(controller):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = problems(controller, ports=[{"port": port, "use": "clients"}])
        assert f"port {port}, for clients, is held by" in said
        own = _host_look.holder_of(port)
        assert (
            problems(controller, ports=[{"port": port, "use": "x"}], service=own).count(
                f"port {port}"
            )
            == 0
        )


def test_a_port_that_nobody_holds_has_no_holder():
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    assert _host_look.holder_of(port) is None


def test_a_way_that_is_closed_is_named_with_the_reason(controller):
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    said = problems(controller, reach=[f"https://127.0.0.1:{port}", "nowhere.invalid"])
    assert f"no connection to https://127.0.0.1:{port} (nothing listens there)" in said
    assert "no connection to nowhere.invalid (its name is not known here)" in said


def test_a_way_that_is_open_is_no_problem(controller):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert "connection" not in problems(controller, reach=[f"127.0.0.1:{port}"])


def test_a_clock_that_is_wrong_is_named_with_how_far(controller):
    assert "s behind the controller's" in problems(controller, now=time.time() + 3600)
    assert "clock" not in problems(controller, now=time.time())


def test_nothing_stands_in_the_way_of_a_usual_host(usual):
    assert said_of() == []


def test_a_host_that_systemd_does_not_run_is_named(usual, monkeypatch, tmp_path):
    monkeypatch.setattr(_host_look, "_SYSTEMD", str(tmp_path / "not"))
    assert said_of() == [
        "systemd does not run it, and llmgw's services are its: take another system"
    ]


def test_a_processor_without_wheels_is_named_with_those_that_have_some(usual, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert said_of() == ["there is no llmgw for riscv64, only for x86_64 and aarch64"]


def test_a_host_that_does_not_know_its_own_name_is_told_where_to_put_it(usual, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "nobody.invalid")
    (said,) = said_of()
    assert "has no address: put it into /etc/hosts" in said


def test_a_clock_that_is_ahead_is_told_from_one_that_is_behind(usual):
    (said,) = said_of(now=time.time() - 90)
    assert said.startswith("its clock is 90 s ahead of the controller's")


def test_an_answer_that_does_not_come_is_named_with_how_long_it_was_waited_for(monkeypatch):
    def silent(*_place, timeout):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    reason = _host_look.unreachable_reason("192.0.2.1", 7443, timeout_s=1.5)
    assert reason == "no answer within 1.5 s"


def test_a_trial_run_says_the_same(controller):
    said = problems(controller, words=("--check",), python="/usr/bin/false")
    assert "no Python 3.11" in said


def test_a_process_that_ended_meanwhile_is_passed_over(monkeypatch, tmp_path):
    gone = tmp_path / "4711"
    gone.mkdir()
    assert list(_host_look._socket_inodes(gone)) == []
    assert _host_look._service_of(gone) == "another program"


def test_a_service_is_called_by_its_name_and_any_other_process_by_its_program(tmp_path):
    process = tmp_path / "4711"
    process.mkdir()
    (process / "comm").write_text("nginx\n")
    (process / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    assert _host_look._service_of(process) == "nginx"
    (process / "cgroup").write_text("0::/system.slice/llmgw-server.service\n")
    assert _host_look._service_of(process) == "llmgw-server"
