"""``llmgw ctl cert`` through its real door: from nothing to pairs that can be believed."""

from __future__ import annotations

import json
import time

import pytest

from llmgw.rpc import authority, certificates
from tests.fakes import commands


@pytest.fixture
def site(tmp_path):
    """Runs ``llmgw ctl cert`` against an authority made for the test."""

    def run(*args):
        return commands.here("ctl", "cert", *args, "--dir", str(tmp_path / "ca"))

    assert run("init-ca").returncode == 0
    return run


def test_four_commands_make_a_site_that_trusts_itself(site, tmp_path):
    out = str(tmp_path / "out")
    server = site(
        "issue-server", "cp1", "--host", "10.0.0.1", "--host", "cp1.lab", "--out", out, "--json"
    )
    node = site("issue-client", "node01", "--out", out)
    assert (server.returncode, node.returncode) == (0, 0), server.stderr + node.stderr
    assert json.loads(server.stdout)["hosts"] == ["cp1", "cp1.lab", "10.0.0.1"]
    assert "node01.key" in node.stdout
    problems = certificates.check_own_pair(
        ca=tmp_path / "out" / "ca.pem",
        cert=tmp_path / "out" / "node01.pem",
        key=tmp_path / "out" / "node01.key",
        node_id="node01",
        now=time.time(),
    )
    assert problems == ()


def test_an_existing_authority_is_refused_with_exit_code_5(site):
    again = site("init-ca")
    assert again.returncode == 5
    assert "would cut off every node" in again.stderr


def test_inspect_tells_people_and_programs_the_same(site, tmp_path):
    ca = str(tmp_path / "ca" / "ca.pem")
    shown = commands.here("ctl", "cert", "inspect", ca)
    document = json.loads(commands.here("ctl", "cert", "inspect", ca, "--json").stdout)
    assert document["ok"]
    assert document["is_ca"]
    for value in (document["subject"], document["fingerprint"], document["not_after_at"]):
        assert value in shown.stdout


def test_inspect_of_an_expired_certificate_says_no(tmp_path):
    issued = authority.init_ca(tmp_path, now=time.time() - 40 * 86400, days=30)
    done = commands.here("ctl", "cert", "inspect", str(issued.cert))
    assert done.returncode == 7
    assert "expired on" in done.stderr


def test_inspect_of_nothing_is_exit_code_4(tmp_path):
    done = commands.here("ctl", "cert", "inspect", str(tmp_path / "absent.pem"))
    assert done.returncode == 4
    assert "no such file" in done.stderr


def test_a_request_travels_by_pipe_and_a_second_one_is_not_needed(site, tmp_path):
    node = str(tmp_path / "node")
    asked = commands.here("ctl", "cert", "request", "node05", "--dir", node)
    assert asked.returncode == 0, asked.stderr
    csr = tmp_path / "node05.csr"
    csr.write_text(asked.stdout)
    signed = site("sign", "--csr", str(csr), "--name", "node05", "--json")
    assert signed.returncode == 0, signed.stderr
    document = json.loads(signed.stdout)
    (tmp_path / "node" / "node05.pem").write_text(document["certificate_pem"])
    (tmp_path / "node" / "ca.pem").write_text(document["ca_pem"])
    again = commands.here("ctl", "cert", "request", "node05", "--dir", node, "--json")
    verdict = json.loads(again.stdout)
    assert (verdict["keep"], verdict["changed"], verdict["csr"]) == (True, False, None)
    assert verdict["certificate"]["serial"] == document["serial"]
    kept = commands.here("ctl", "cert", "request", "node05", "--dir", node)
    assert (kept.stdout, kept.returncode) == ("", 0)
    assert "is kept" in kept.stderr


def test_a_request_for_another_name_is_refused_with_exit_code_5(site, tmp_path):
    csr = tmp_path / "x.csr"
    csr.write_text(commands.here("ctl", "cert", "request", "x", "--dir", str(tmp_path)).stdout)
    done = site("sign", "--csr", str(csr), "--name", "y")
    assert (done.returncode, done.stdout) == (5, "")
    assert "'x' and not for 'y'" in done.stderr


def test_no_part_of_a_key_is_ever_written_out(site, tmp_path):
    asked = commands.here("ctl", "cert", "request", "node05", "--dir", str(tmp_path), "--json")
    secret = (tmp_path / "node05.key").read_text().splitlines()[1]
    assert secret not in asked.stdout + asked.stderr


def test_inspect_judges_a_pair_and_its_authority(site, tmp_path):
    out = tmp_path / "out"
    for node in ("node01", "node02"):
        site("issue-client", node, "--out", str(out))
    cert, ca = str(out / "node01.pem"), str(out / "ca.pem")

    def inspect(key, ca=ca):
        return commands.here(
            "ctl", "cert", "inspect", cert, "--json", "--ca", ca, "--key", str(out / key)
        )

    good = json.loads(inspect("node01.key").stdout)
    root = json.loads(commands.here("ctl", "cert", "inspect", ca, "--json").stdout)
    assert (good["ok"], good["key_matches"], good["is_signed_by_ca"]) == (True, True, True)
    assert good["issuer_fingerprint"] == root["fingerprint"]
    assert good["days_left"] == 364
    bad = inspect("node02.key", ca=cert)
    assert bad.returncode == 7
    document = json.loads(bad.stdout)
    assert (document["key_matches"], document["is_signed_by_ca"]) == (False, False)
