"""What a node says is let in as it is, or refused with all that cannot be so."""

from __future__ import annotations

import math

import pytest

from llmgw.control.agents import credible
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import HeartbeatFacts
from llmgw.domain.replicas import FetchProgress, ShardReport, ShardState
from llmgw.errors import Invalid
from tests.fakes import clusters

TWICE = (clusters.gpu(0), clusters.gpu(0))


def report(**others):
    plain = {"shard_id": "m-1.0", "replica_id": "m-1", "state": ShardState.PENDING}
    return ShardReport(node_id="n1", **{**plain, **others})


def fetched(**others):
    return report(fetch=FetchProgress(source="http://w", done_bytes=1, **others))


@pytest.mark.parametrize(
    "address", ["", "10.0.0.1", "::1", "fd00::5", "node01", "node01.lab.example", "7"]
)
def test_an_address_is_an_ip_address_a_host_name_or_unknown(address):
    credible.check_facts(clusters.facts("n1", mgmt_addr=address))
    credible.check_running([clusters.running(leader_addr=address)])


@pytest.mark.parametrize(
    "address",
    [" ", "a b", "10.0.0.1\n", "http://x", "10.0.0.1/..", "[::1]", "u:p@h", "h:80", "x" * 254, "ü"],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(Invalid, match="neither an IP address nor a host name"):
        credible.check_facts(clusters.facts("n1", mgmt_addr=address))
    with pytest.raises(Invalid, match=r"m-1\.0"):
        credible.check_running([clusters.running(leader_addr=address)])


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_an_address_of_every_machine_is_refused(address):
    with pytest.raises(Invalid, match="no machine's own"):
        credible.check_facts(clusters.facts("n1", mgmt_addr=address))


@pytest.mark.parametrize("ports", [(0, 10), (30, 20), (1, 65536), (-5, -1)])
def test_ports_that_are_no_range_are_refused(ports):
    with pytest.raises(Invalid, match="its ports go from"):
        credible.check_facts(clusters.facts("n1", port_range=ports))


@pytest.mark.parametrize("heartbeat_s", [0.0, -1.0, 3601.0])
def test_a_beat_that_would_never_be_missed_is_refused(heartbeat_s):
    with pytest.raises(Invalid, match="would beat every"):
        credible.check_facts(clusters.facts("n1", heartbeat_s=heartbeat_s))


def test_a_card_that_is_listed_twice_is_refused_whenever_it_is_told():
    with pytest.raises(Invalid, match="node 'n1' cannot be believed: card 0 is listed twice"):
        credible.check_facts(clusters.facts("n1", gpus=TWICE))
    with pytest.raises(Invalid, match="a heartbeat of node 'n1'"):
        credible.check_beat(HeartbeatFacts(gpus=TWICE), node_id="n1")


def test_a_download_at_a_rate_that_is_no_number_is_refused_whenever_it_is_told():
    odd = (FetchStatus("hf:a/b", "0-b", FetchState.FETCHING, bytes_per_s=float("nan")),)
    with pytest.raises(Invalid, match="the rate of a download is no number"):
        credible.check_facts(clusters.facts("n1", fetches=odd))
    with pytest.raises(Invalid, match="a heartbeat of node 'n1'"):
        credible.check_beat(HeartbeatFacts(fetches=odd), node_id="n1")


def test_a_beat_that_says_nothing_of_cards_is_believed():
    credible.check_beat(HeartbeatFacts(), node_id="n1")


@pytest.mark.parametrize(
    ("shards", "why"),
    [
        pytest.param(
            [clusters.running(), clusters.running()], r"shard m-1\.0 is listed twice", id="shard"
        ),
        pytest.param(
            [clusters.running(nnodes=2), clusters.running(nnodes=2)],
            "rank 0 of m-1 is listed twice",
            id="rank",
        ),
        pytest.param([clusters.running(rank=2, nnodes=2)], "rank 2 of 2", id="too-high"),
        pytest.param([clusters.running(rank=-1)], "rank -1 of 1", id="negative"),
        pytest.param([clusters.running("../m")], "is no id", id="id"),
        pytest.param([clusters.running(http_port=65536)], "port 65536", id="port"),
        pytest.param([clusters.running(leader_port=-1)], "port -1", id="leader-port"),
        pytest.param([clusters.running(gpu_indices=(0, 0))], "holds a card twice", id="card"),
    ],
)
def test_what_cannot_run_like_that_is_refused(shards, why):
    with pytest.raises(Invalid, match=why):
        credible.check_running(shards)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(Invalid) as refused:
        credible.check_facts(clusters.facts("n1", gpus=TWICE, mgmt_addr="a b", port_range=(2, 1)))
    assert refused.value.message.count(";") == 2


def test_two_halves_and_two_replicas_may_run_on_one_node():
    credible.check_running(
        [clusters.running(nnodes=2), clusters.running(rank=1, nnodes=2), clusters.running("m-2")]
    )


def test_a_report_names_a_shard_and_figures_that_are_numbers():
    credible.check_report(report())
    credible.check_report(report(replica_id=""))
    credible.check_report(fetched(bytes_per_s=0.5))
    with pytest.raises(Invalid, match="is no id"):
        credible.check_report(report(shard_id=""))
    with pytest.raises(Invalid, match="is no id"):
        credible.check_report(report(replica_id="m 1"))
    for rate in (math.nan, math.inf):
        with pytest.raises(Invalid, match="no number"):
            credible.check_report(fetched(bytes_per_s=rate))
