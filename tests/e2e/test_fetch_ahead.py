"""A model's weights are ordered ahead of its start, and it starts without its origin."""

from __future__ import annotations

import functools
import http.server
import threading

import httpx
import pytest

from llmgw.domain import weights
from tests.fakes.deployment import until

pytestmark = pytest.mark.slow


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def origin(tmp_path):
    """The address of a model, and how to end whatever serves it."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "tiny.gguf").write_bytes(b"w" * 100_000)
    answers = functools.partial(Quiet, directory=tmp_path / "served")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answers)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()

    def end():
        server.shutdown()
        server.server_close()
        serving.join()

    yield f"http://127.0.0.1:{server.server_port}/tiny.gguf", end
    if serving.is_alive():
        end()


def test_weights_that_were_ordered_ahead_are_there_when_their_origin_is_not(deployment, origin):
    source, end = origin
    model = {"name": "tiny", "source": source, "scaling": {"min": 0, "max": 1}}
    model["profiles"] = [{"name": "cpu", "engine": "sim"}]
    control = {"interval": 1, "base_backoff": 0.5, "expect_nodes": ["node1"]}
    deployment.server(models=[model], control=control)
    deployment.agent(1).wait_said("(registered)")
    assert deployment.ctl("fetch", "tiny", "--node", "ghost").returncode == 4
    ordered = deployment.ctl("fetch", "tiny", "--node", "node1")
    assert ordered.returncode == 0, ordered.stderr
    whole = deployment.root / "node1" / "weights" / weights.cache_name(source)
    until(whole.exists, "the weights are there")
    end()
    until(lambda: not deployment.show("weights")["fetches"], "nothing is on its way")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{deployment.url}/v1/chat/completions"
    until(lambda: httpx.post(url, json=body).status_code == 200, "it is started when it is asked")
    assert "it is here" in deployment.ctl("fetch", "tiny", "--node", "node1").stdout
