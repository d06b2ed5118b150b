"""What an agent sees of its engine's work reaches the workers that judge whether it hangs."""

from __future__ import annotations

import time

import httpx
import pytest

from llmgw.gateway import board_layout
from llmgw.gateway.board import LoadBoard
from tests.e2e.test_survival import MODEL
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_what_an_agent_sees_of_an_engine_is_on_the_board_of_the_workers(deployment):
    deployment.server(
        models=[{**MODEL, "scaling": {"min": 1}}],
        agent_tls="insecure",
        control={"interval": 1, "expect_nodes": ["node1"]},
    )
    deployment.agent(1, heartbeat_interval=3)
    deployment.wait_ready("sim", 1)
    (replica,) = deployment.ready("sim")
    path = board_layout.path(deployment.root / "run")
    board = LoadBoard.attached(path, row=board_layout.ROWS - 1, now=time.monotonic)
    seat = board.seat(replica["replica_id"], replica["url"])
    first_at = until(lambda: seat.looked_at, "its agent has looked")
    assert time.monotonic() - first_at < 60
    until(lambda: seat.looked_at > first_at, "and looks again and again")

    begun_at = time.monotonic()
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
    while time.monotonic() - begun_at < 8 and (seat.worked_at or 0) < begun_at:
        assert httpx.post(f"{deployment.url}/v1/chat/completions", json=body).status_code == 200
    (replica,) = deployment.ready("sim")
    assert replica["ejected_s"] is None
    assert replica["idle_s"] < 60
