"""A key is born on its machine and signed for on another: both modules over the real llmgw."""

from __future__ import annotations

import json
import subprocess

import pytest


class Site:
    """A folder with an authority, and one with the files of a machine."""

    def __init__(self, folder, llmgw):
        self.llmgw = llmgw
        self.authority = folder / "pki"
        self.machine = folder / "etc"

    def make_authority(self):
        command = [self.llmgw, "ctl", "cert", "init-ca", "--dir", str(self.authority)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return self

    def ask(self, *, task="ask", keywords=None, **options):
        files = {
            "path": str(self.machine / "agent.pem"),
            "key_path": str(self.machine / "agent-key.pem"),
            "ca_path": str(self.machine / "ca.pem"),
        }
        given = {"name": "node05", "executable": self.llmgw, **files, **options}
        return {
            "name": task,
            "llmgw.fleet.certificate_request": given,
            "register": task.replace(" ", "_"),
            **(keywords or {}),
        }

    def sign(self, *, of="ask", task="sign", keywords=None, **options):
        return {
            "name": task,
            "llmgw.fleet.certificate": {
                "name": "node05",
                "csr": "{{ " + of.replace(" ", "_") + ".csr }}",
                "needed": "{{ " + of.replace(" ", "_") + ".needed }}",
                "executable": self.llmgw,
                "ca_dir": str(self.authority),
                **options,
            },
            "register": task.replace(" ", "_"),
            **(keywords or {}),
        }

    def deliver(self, *, of="sign"):
        files = {"certificate": "agent.pem", "ca": "ca.pem"}
        return [
            {
                "name": f"{key} comes back",
                "ansible.builtin.copy": {
                    "content": "{{ " + of.replace(" ", "_") + f".{key} }}}}",
                    "dest": str(self.machine / name),
                    "mode": "0644",
                },
                "when": f"{of.replace(' ', '_')}.certificate is not none",
            }
            for key, name in files.items()
        ]

    def whole(self):
        return [self.ask(), self.sign(), *self.deliver()]

    def issued(self):
        lines = (self.authority / "issued.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines if line]


@pytest.fixture
def site(tmp_path, llmgw):
    return Site(tmp_path, llmgw).make_authority()


LOOK = {"check_mode": True, "diff": True}
MAY_FAIL = {"ignore_errors": True}


def test_a_machine_gets_its_certificate_once_and_keeps_it(controller, site):
    first = controller.play(*site.whole())
    assert first.rc == 0, first.output
    assert [first["ask"].changed, first["sign"].changed] == [True, True]
    assert first["ask"]["key_created"]
    assert first["ask"]["reasons"]
    assert (site.machine / "agent-key.pem").stat().st_mode & 0o777 == 0o600
    assert first["sign"]["facts"]["subject"] == "node05"

    again = controller.play(*site.whole())
    assert again.rc == 0, again.output
    assert not any(told.changed for told in again.tasks.values())
    assert again["ask"]["needed"] is False
    assert again["ask"]["csr"] is None
    assert again["ask"]["present"]["serial"] == first["sign"]["facts"]["serial"]
    assert len(site.issued()) == 1


def test_looking_makes_no_key_and_signs_nothing(controller, site):
    played = controller.play(
        site.ask(task="look", keywords=LOOK), site.sign(of="look", task="signing", keywords=LOOK)
    )
    assert played.rc == 0, played.output
    assert [played["look"].changed, played["signing"].changed] == [True, True]
    assert played["look"]["csr"] is None
    assert played["look"]["diff"]["before"] == {"key": "absent", "certificate": "absent"}
    assert played["look"]["diff"]["after"]["key"] == "present"
    assert not site.machine.exists()
    assert sorted(path.name for path in site.authority.iterdir()) == ["ca.key", "ca.pem"]


def test_looking_at_a_request_that_there_is_judges_it_and_keeps_nothing(controller, site):
    played = controller.play(
        site.ask(),
        site.sign(task="look", keywords=LOOK),
        site.sign(task="other name", keywords={**LOOK, **MAY_FAIL}, name="node06"),
    )
    assert played["look"].changed
    assert played["look"]["certificate"] is None
    assert played["look"]["diff"]["after"]["subject"] == "node05"
    assert "is for 'node05' and not for 'node06'" in played["other name"]["msg"]
    assert not (site.authority / "issued.jsonl").exists()
    assert not (site.authority / "issued").exists()


def test_the_same_request_is_signed_once(controller, site):
    played = controller.play(
        site.ask(),
        site.sign(),
        site.sign(task="again"),
        site.sign(task="longer", renew_days=91),
    )
    assert played.rc == 0, played.output
    assert not played["again"].changed
    assert played["again"]["certificate"] == played["sign"]["certificate"]
    assert played["again"]["ca"] == played["sign"]["ca"]
    assert played["again"]["ca_sha256"] == played["sign"]["ca_sha256"]
    assert played["longer"].changed
    assert [line["name"] for line in site.issued()] == ["node05", "node05"]


def test_what_no_longer_does_brings_exactly_one_new_certificate(controller, site):
    played = controller.play(
        *site.whole(),
        site.ask(task="expiring", renew_days=91),
        site.ask(task="forced", force=True),
        site.ask(task="other name", name="node06"),
        site.sign(of="forced", task="renew"),
        *site.deliver(of="renew"),
        site.ask(task="after"),
    )
    assert played.rc == 0, played.output
    for task, why in (
        ("expiring", "expires in"),
        ("forced", "a new one was asked for"),
        ("other name", "names 'node05' and not 'node06'"),
    ):
        assert played[task]["needed"], task
        assert not played[task].changed, "the key was kept"
        assert why in " ".join(played[task]["reasons"])
    assert played["renew"].changed
    assert not played["after"]["needed"]
    assert len(site.issued()) == 2


def test_a_server_keeps_earlier_hosts_and_gains_new_ones(controller, site):
    server = {"name": "control01", "usage": "server"}
    played = controller.play(
        site.ask(**server, hosts=["10.0.0.10", "control01.lab"]),
        site.sign(**server),
        *site.deliver(),
        site.ask(task="same", **server, hosts=["10.0.0.10"]),
        site.ask(task="more", **server, hosts=["llm.lab"]),
        site.ask(task="exact", **server, hosts=["llm.lab"], exact_hosts=True),
    )
    assert played.rc == 0, played.output
    assert set(played["sign"]["facts"]["hosts"]) == {"control01", "10.0.0.10", "control01.lab"}
    assert not played["same"]["needed"]
    assert set(played["more"]["hosts"]) == {"control01", "10.0.0.10", "control01.lab", "llm.lab"}
    assert set(played["exact"]["hosts"]) == {"control01", "llm.lab"}


def test_a_name_is_not_signed_for_a_second_machine(controller, site):
    played = controller.play(
        site.ask(),
        site.sign(address="10.0.0.145"),
        site.ask(task="stranger", path="/nowhere/a.pem", force=True),
        site.sign(of="stranger", task="refused", address="10.0.0.146", keywords=MAY_FAIL),
        site.sign(of="stranger", task="moved", address="10.0.0.146", moved=True),
    )
    assert "10.0.0.145 holds a living certificate of 'node05'" in played["refused"]["msg"]
    assert played["refused"]["meaning"] == "refused"
    assert played["moved"].changed


def test_a_reserved_name_is_signed_only_where_it_is_allowed(controller, site):
    mirror = {"name": "control-plane"}
    played = controller.play(
        site.ask(**mirror),
        site.sign(**mirror, keywords=MAY_FAIL),
        site.sign(task="allowed", **mirror, allow_reserved=True),
    )
    assert "reserved" in played["sign"]["msg"]
    assert played["allowed"].changed


def test_another_authority_than_the_known_one_is_not_believed(controller, site):
    played = controller.play(
        *site.whole(), site.ask(task="other", ca_sha256="ab" * 32, keywords=MAY_FAIL)
    )
    assert "is not the authority with the fingerprint abab" in played["other"]["msg"]


def test_without_an_authority_the_task_says_how_to_make_one(controller, tmp_path, llmgw):
    site = Site(tmp_path, llmgw)
    played = controller.play(site.ask(), site.sign())
    assert "llmgw ctl cert init-ca" in played["sign"]["msg"]
    assert played["sign"]["meaning"] == "unknown"


def test_a_request_must_be_there_to_be_signed(controller, site):
    played = controller.play(site.sign(csr="", needed=True))
    assert played["sign"]["msg"] == "there is no request of 'node05' to be signed"


def test_a_blank_machine_is_looked_at_without_a_failure(controller, tmp_path):
    site = Site(tmp_path, str(tmp_path / "not-there" / "llmgw"))
    played = controller.play(
        site.ask(task="look", keywords=LOOK),
        site.sign(of="look", task="signing", keywords=LOOK),
        site.ask(keywords=MAY_FAIL),
    )
    assert [played["look"].changed, played["signing"].changed] == [True, True]
    assert "the role llmgw.fleet.runtime puts it there" in played["ask"]["msg"]
    assert played["ask"]["meaning"] == "missing"


def test_no_key_is_ever_printed(controller, site):
    played = controller.play(*site.whole(), words=["-vvv", "--diff"])
    assert played.rc == 0, played.output
    assert "PRIVATE KEY" not in played.output
    for line in (site.machine / "agent-key.pem").read_text().splitlines()[1:-1]:
        assert line not in played.output
