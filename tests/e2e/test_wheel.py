"""The package as people install it: from the wheel, with as many extras as they asked for."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture
def installed(wheel, tmp_path):
    """Install the wheel with extras into a fresh environment; the folder of its programs."""

    def install(extras=""):
        run(sys.executable, "-m", "venv", tmp_path / "venv")
        programs = tmp_path / "venv" / "bin"
        run(programs / "pip", "install", "--quiet", f"{wheel}{extras}")
        return programs

    return install


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def refusal(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"llmgw/__main__.py", "llmgw/py.typed", "llmgw/rpc/v1/agent_pb2.py"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"llmgw"}


def test_the_base_is_the_command_line_and_says_what_more_to_install(installed, tmp_path):
    llmgw = installed() / "llmgw"
    assert run(llmgw, "--version").startswith("llmgw ")
    assert "explain-placement" in run(llmgw, "ctl", "--help")
    settings = tmp_path / "server.yaml"
    settings.write_text("listen: ':8080'\n")
    assert "no mistakes" in run(llmgw, "config", "check", settings)
    code, said = refusal(llmgw, "server")
    assert code == 2
    assert "pip install 'llmgw[server]'" in said
    code, said = refusal(llmgw, "agent")
    assert code == 2
    assert "pip install 'llmgw[agent]'" in said
    code, said = refusal(llmgw, "ctl", "--admin", "http://127.0.0.1:1", "status")
    assert code == 3
    assert "Traceback" not in said


def test_the_agent_installs_alone(installed):
    programs = installed("[agent]")
    run(programs / "llmgw", "agent", "inventory", "--json")
    run(programs / "python", "-c", "import llmgw.agent.session")
    assert "h100-sxm" in run(programs / "llmgw", "simulate", "agents", "--help")
    names = run(programs / "pip", "list", "--format", "freeze").lower()
    assert "fastapi" not in names
    assert "sqlalchemy" not in names


def test_the_server_starts_from_the_wheel(installed):
    programs = installed("[server]")
    assert "--endpoint" in run(programs / "llmgw", "server", "--help")
    code, said = refusal(programs / "llmgw", "up")
    assert code == 2
    assert "pip install 'llmgw[server,agent,local]'" in said
