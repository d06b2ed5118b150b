"""What a process carries that it has no use for: nothing."""

from __future__ import annotations

import json
import subprocess
import sys


def loaded(*modules):
    code = f"import json, sys, {', '.join(modules)}; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return {name.partition(".")[0] for name in json.loads(ran.stdout)}


def test_a_worker_is_small():
    assert loaded("llmgw.cli.root", "llmgw.cli.worker_cmd").isdisjoint(
        {"fastapi", "grpc", "pydantic", "uvicorn", "httpx", "yaml"}
    )


def test_a_server_that_only_routes_loads_no_grpc():
    assert "grpc" not in loaded("llmgw.cli.root", "llmgw.cli.server_cmd")


def test_an_agent_loads_nothing_of_the_server():
    assert loaded("llmgw.cli.root", "llmgw.cli.agent_cmd").isdisjoint(
        {"fastapi", "uvicorn", "httptools", "msgspec"}
    )
