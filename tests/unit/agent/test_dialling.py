"""Where an agent dials, and how long it waits."""

from __future__ import annotations

import pytest

from llmgw.agent import dialling
from llmgw.errors import SettingsInvalid
from llmgw.kit.backoff import Backoff

BACKOFF = Backoff(base_s=1.0, max_s=30.0)


def told(*entries, has_tls):
    return [str(a) for a in dialling.addresses(entries, has_tls=has_tls)]


@pytest.mark.parametrize(
    ("entry", "has_tls", "expected"),
    [
        pytest.param("cp1:7443", True, "https://cp1:7443", id="bare with certificates"),
        pytest.param("https://cp1:7443/", True, "https://cp1:7443", id="https"),
        pytest.param("cp1", True, "https://cp1:7443", id="default port"),
        pytest.param("[fd00::1]:7443", True, "https://[fd00::1]:7443", id="IPv6"),
        pytest.param("http://cp1:7443", False, "http://cp1:7443", id="plaintext asked for"),
        pytest.param("127.0.0.1:7443", False, "http://127.0.0.1:7443", id="loopback"),
        pytest.param("localhost:7443", False, "http://localhost:7443", id="localhost"),
        pytest.param("[::1]:7443", False, "http://[::1]:7443", id="IPv6 loopback"),
    ],
)
def test_the_scheme_follows_the_certificates(entry, has_tls, expected):
    assert told(entry, has_tls=has_tls) == [expected]


@pytest.mark.parametrize(
    ("entry", "has_tls", "expected"),
    [
        ("http://cp1:7443", True, "is plaintext, but tls has certificates"),
        ("https://cp1:7443", False, "needs certificates: give tls ca, cert and key"),
        ("cp1:7443", False, "needs certificates: give tls, or write http://cp1:7443"),
        ("ftp://cp1", True, "is not host:port, http://host:port or https://host:port"),
        ("https://cp1/path", True, "names no host and port to connect to"),
        ("https://who@cp1", True, "names no host and port to connect to"),
        ("", True, "names no host and port to connect to"),
        ("https://cp1:0", True, "names no host and port to connect to"),
        ("cp1:port", True, "is no address"),
        ("cp1:99999", True, "is no address"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_by_name(entry, has_tls, expected):
    with pytest.raises(SettingsInvalid) as raised:
        told(entry, has_tls=has_tls)
    (problem,) = raised.value.problems
    assert problem.message.startswith(f"{entry!r} {expected}")


def test_all_bad_addresses_are_named_at_once():
    with pytest.raises(SettingsInvalid) as raised:
        told("http://a", "b:1", "http://c", has_tls=True)
    assert len(raised.value.problems) == 2


def test_no_address_at_all_is_refused():
    with pytest.raises(SettingsInvalid):
        told(has_tls=True)


def test_the_same_server_written_twice_is_dialled_once_in_the_order_given():
    assert told("b:1", "https://a:1", "https://b:1", has_tls=True) == [
        "https://b:1",
        "https://a:1",
    ]


def test_the_same_complaint_is_due_again_after_a_minute_and_another_one_at_once():
    one, other = dialling.addresses(["a:1", "b:1"], has_tls=True)
    complaints = dialling.Complaints()
    assert complaints.is_due(one, "closed", now=0.0)
    assert not complaints.is_due(one, "closed", now=59.0)
    assert complaints.is_due(other, "closed", now=59.0)
    assert complaints.is_due(one, "refused", now=59.0)
    assert not complaints.is_due(one, "refused", now=118.0)
    assert complaints.is_due(one, "refused", now=119.0)
    complaints.clear()
    assert complaints.is_due(one, "refused", now=119.0)


def redial(count):
    choices = dialling.addresses([f"cp{n}:1" for n in range(count)], has_tls=True)
    return dialling.Redial(choices, backoff=BACKOFF)


def fail(plan, *, now=0.0, served_s=None):
    return plan.ended(served_s=served_s, now=now, draw=0.0)


def test_one_server_gets_plain_backoff():
    plan = redial(1)
    assert [fail(plan) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_pause_comes_only_when_all_others_were_just_tried():
    plan = redial(3)
    dialled, pauses = [], []
    for _ in range(6):
        dialled.append(plan.address.target)
        pauses.append(fail(plan))
    assert dialled == ["cp0:1", "cp1:1", "cp2:1"] * 2
    assert pauses == [0, 0, 1, 0, 0, 2]


def test_after_a_served_session_every_pause_is_below_a_second_for_a_while():
    plan = redial(1)
    for _ in range(6):
        fail(plan)
    now, pauses = 1000.0, [fail(plan, now=1000.0, served_s=60.0)]
    while now + pauses[-1] < 1000.0 + dialling.HURRY_S:
        now += pauses[-1]
        pauses.append(fail(plan, now=now))
    assert max(pauses) <= 1.0
    assert len(pauses) > 10
    assert [fail(plan, now=now + 1 + n) for n in range(3)] == [1, 2, 4]


def test_after_a_served_session_the_others_are_tried_at_once():
    plan = redial(2)
    assert fail(plan, served_s=60.0) == 0
    assert plan.address.target == "cp1:1"
    assert 0 < fail(plan) <= 1.0


@pytest.mark.parametrize("served_s", [None, 0.1], ids=["not registered", "dropped at once"])
def test_a_server_that_does_not_serve_is_not_hurried_back_to(served_s):
    plan = redial(1)
    assert [fail(plan, now=float(n), served_s=served_s) for n in range(4)] == [1, 2, 4, 8]


def test_a_fleet_does_not_come_back_in_lockstep():
    pauses = {redial(1).ended(served_s=None, now=0.0, draw=d / 10) for d in range(10)}
    assert len(pauses) == 10
    assert all(0.5 <= p <= 1.0 for p in pauses)
