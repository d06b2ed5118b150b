"""A key is born on its machine: what is asked for, what is granted, and when nothing is needed."""

from __future__ import annotations

import base64
import dataclasses
import json

import pytest

from llmgw.errors import Conflict, Denied, Invalid, Unknown
from llmgw.rpc import authority, certificates, enrolment, issuances
from llmgw.rpc.authority import Order
from llmgw.rpc.enrolment import Files, Wanted

NOW = 1_800_000_000.0
DAY_S = 86400.0


@pytest.fixture
def ca(tmp_path):
    authority.init_ca(tmp_path / "ca", now=NOW)
    return tmp_path / "ca"


@pytest.fixture
def machine(ca, tmp_path):
    """A machine called node05 that has the root and nothing else."""
    return Machine(tmp_path / "node05", ca=ca)


class Machine:
    def __init__(self, folder, *, ca, name="node05", usage="client", hosts=()):
        folder.mkdir()
        self.ca = ca
        self.files = Files(
            ca=folder / "ca.pem", cert=folder / "agent.pem", key=folder / "agent-key.pem"
        )
        self.files.ca.write_bytes((ca / "ca.pem").read_bytes())
        self.wanted = Wanted(name=name, usage=usage, files=self.files, hosts=hosts)

    def wants(self, **changes):
        self.wanted = dataclasses.replace(self.wanted, **changes)
        return self

    def apply(self, *, now=NOW, **options):
        return enrolment.apply(self.wanted, now=now, **options)

    def sign(self, csr, *, now=NOW, ca=None, **order):
        order = Order(**{"name": self.wanted.name, "usage": self.wanted.usage, **order})
        return authority.sign(ca or self.ca, csr=csr.encode(), order=order, now=now)

    def enrol(self, *, now=NOW, **order):
        signed = self.sign(self.apply(now=now).csr_pem, now=now, **order)
        self.files.cert.write_text(signed.certificate_pem)
        return signed


def test_request_and_signature_make_a_pair_that_the_agent_itself_believes(machine):
    machine.enrol()
    files = dataclasses.asdict(machine.files)
    assert certificates.check_own_pair(**files, node_id="node05", now=NOW) == ()
    assert machine.files.key.stat().st_mode & 0o777 == 0o600


def test_a_nodes_certificate_lasts_90_days_and_began_an_hour_ago(machine):
    facts = machine.enrol().facts
    assert facts.not_after_at == NOW + 90 * DAY_S
    assert facts.not_before_at == NOW - 3600
    assert (facts.subject, facts.hosts, facts.usages) == ("node05", ("node05",), ("client",))


def test_a_good_certificate_is_kept_and_nothing_is_asked(machine):
    machine.enrol()
    before = machine.files.key.read_bytes()
    applied = machine.apply(now=NOW + 59 * DAY_S)
    assert applied.standing.is_good
    assert (applied.csr_pem, applied.has_new_key) == (None, False)
    assert machine.files.key.read_bytes() == before


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda m: m.files.cert.unlink(), "no such file", id="gone"),
        pytest.param(lambda m: m.wants(name="node06"), "names 'node05' and not", id="name"),
        pytest.param(lambda m: m.wants(usage="server"), "is not for a server", id="usage"),
        pytest.param(lambda m: m.wants(renew_days=91), "expires in 90 days", id="expiring"),
        pytest.param(lambda m: m.wants(is_forced=True), "was asked for", id="forced"),
        pytest.param(lambda m: m.files.key.unlink(), "agent-key.pem: no such file", id="key"),
        pytest.param(
            lambda m: m.files.ca.write_bytes(other(m).read_bytes()), "was signed by", id="root"
        ),
    ],
)
def test_a_certificate_that_does_not_do_is_asked_for_once_and_says_why(machine, spoil, reason):
    machine.enrol()
    spoil(machine)
    applied = machine.apply()
    assert applied.csr_pem
    assert any(reason in r for r in applied.standing.reasons), applied.standing.reasons


def test_a_renewal_keeps_the_key(machine):
    machine.enrol()
    before = machine.files.key.read_bytes()
    machine.enrol(now=NOW + 70 * DAY_S)
    assert machine.files.key.read_bytes() == before
    assert machine.apply(now=NOW + 70 * DAY_S).standing.is_good


def test_a_trial_writes_nothing(machine):
    applied = machine.apply(is_trial=True)
    assert (applied.has_new_key, applied.csr_pem) == (True, None)
    assert not machine.files.key.exists()


def test_a_trial_beside_a_key_shows_the_request_that_would_be_made(machine):
    machine.enrol()
    machine.wants(is_forced=True)
    assert machine.apply(is_trial=True).csr_pem


def test_a_root_that_was_not_the_one_named_ends_it(machine):
    with pytest.raises(Denied, match="is not the authority with the fingerprint"):
        machine.wants(ca_sha256="ab" * 32).apply()
    own = certificates.inspect(machine.files.ca).fingerprint
    assert machine.wants(ca_sha256=own.upper()).apply().csr_pem


# Servers


@pytest.fixture
def server(ca, tmp_path):
    return Machine(tmp_path / "cp", ca=ca, name="cp1", usage="server", hosts=("10.0.0.1", "::1"))


def test_a_server_is_valid_for_each_host_that_it_asked_for(server):
    assert server.enrol(days=365).facts.hosts == ("cp1", "10.0.0.1", "::1")


def test_a_new_host_is_added_and_the_old_ones_stay_even_when_not_named_again(server):
    server.enrol()
    server.wants(hosts=("gw.lab",))
    applied = server.apply()
    assert any("does not name gw.lab" in r for r in applied.standing.reasons)
    assert server.enrol().facts.hosts == ("cp1", "gw.lab", "10.0.0.1", "::1")
    assert server.wants(hosts=()).apply().standing.is_good


def test_hosts_go_only_when_that_is_asked(server):
    server.enrol()
    server.wants(hosts=("10.0.0.1",), has_exact_hosts=True)
    assert any("still names ::1" in r for r in server.apply().standing.reasons)
    assert server.enrol().facts.hosts == ("cp1", "10.0.0.1")


def test_a_servers_certificate_of_a_foreign_authority_is_left_alone_and_said(server):
    server.enrol()
    server.files.ca.write_bytes(other(server).read_bytes())
    standing = server.apply().standing
    assert (standing.is_good, standing.is_foreign) == (True, True)
    assert any("was signed by" in r for r in standing.reasons)


# The authority


@pytest.mark.parametrize("name", ["control-plane", "mirror", "agent", "ca", "all", "localhost"])
def test_a_reserved_name_is_given_to_no_node(ca, tmp_path, name):
    with pytest.raises(Denied, match="is reserved"):
        authority.issue_client(ca, out=tmp_path / "out", node_id=name, now=NOW)
    machine = Machine(tmp_path / "m", ca=ca, name=name)
    with pytest.raises(Denied, match="is reserved"):
        machine.enrol()
    assert machine.enrol(may_be_reserved=True).facts.subject == name


def test_a_request_of_another_name_is_refused_naming_both(machine):
    csr = machine.apply().csr_pem
    with pytest.raises(Denied, match="'node05' and not for 'node06'"):
        machine.sign(csr, name="node06")


def test_a_node_cannot_ask_to_be_another_host(machine, tmp_path):
    csr = Machine(tmp_path / "x", ca=machine.ca, usage="server", hosts=("node06",)).apply().csr_pem
    with pytest.raises(Denied, match="may not be node06"):
        machine.sign(csr, usage="client")


@pytest.mark.parametrize("csr", ["", "rubbish", "-----BEGIN CERTIFICATE REQUEST-----\nAA\n"])
def test_what_is_no_request_is_refused(machine, csr):
    with pytest.raises(Invalid, match="no request"):
        machine.sign(csr)


def test_a_changed_request_is_refused(machine):
    der = bytearray(ssl_der(machine.apply().csr_pem))
    der[der.index(b"node05") + 5] ^= 1
    pem = base64.encodebytes(bytes(der)).decode()
    with pytest.raises(Invalid, match="was changed"):
        machine.sign(f"-----BEGIN {_KIND}-----\n{pem}-----END {_KIND}-----\n", name="node04")


def test_two_machines_do_not_get_one_name(machine, tmp_path):
    machine.enrol(address="10.0.0.145")
    machine.wants(is_forced=True).enrol(address="10.0.0.145")
    twin = Machine(tmp_path / "twin", ca=machine.ca)
    with pytest.raises(Conflict, match=r"10\.0\.0\.145 holds a living certificate of 'node05'"):
        twin.enrol(address="10.0.0.146")
    twin.enrol(address="10.0.0.146", may_move=True)
    twin.wants(is_forced=True).enrol(address="10.0.0.146")


def test_a_name_is_free_again_when_its_certificate_has_expired(machine, tmp_path):
    machine.enrol(address="10.0.0.145")
    twin = Machine(tmp_path / "twin", ca=machine.ca)
    assert twin.enrol(now=NOW + 91 * DAY_S, address="10.0.0.146")


def test_everything_that_was_signed_is_remembered_for_the_authoritys_owner_only(machine, tmp_path):
    signed = machine.enrol(address="10.0.0.145")
    authority.issue_server(machine.ca, out=tmp_path / "s", name="cp1", hosts=[], now=NOW)
    file = machine.ca / issuances.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    entries = [json.loads(line) for line in file.read_text().split("\n") if line]
    assert [(e["name"], e["usage"]) for e in entries] == [("node05", "client"), ("cp1", "server")]
    assert entries[0]["serial"] == signed.facts.serial


def test_a_torn_line_of_the_memory_does_not_stop_the_authority(machine):
    machine.enrol(address="10.0.0.145")
    with (machine.ca / issuances.FILE).open("a") as file:
        file.write('{"serial": "12')
    machine.wants(is_forced=True).enrol(address="10.0.0.145")
    assert len(issuances.read(machine.ca)) == 2


def test_a_trial_is_not_remembered(machine):
    csr = machine.apply().csr_pem
    order = Order(name="node05", usage="client")
    authority.sign(machine.ca, csr=csr.encode(), order=order, now=NOW, is_trial=True)
    assert issuances.read(machine.ca) == ()


def test_without_an_authority_the_command_that_makes_one_is_named(machine, tmp_path):
    csr = machine.apply().csr_pem
    with pytest.raises(Unknown, match="llmgw ctl cert init-ca --dir"):
        machine.sign(csr, ca=tmp_path / "absent")


_KIND = "CERTIFICATE REQUEST"


def ssl_der(pem):
    return base64.b64decode("".join(pem.splitlines()[1:-1]))


def other(machine):
    """The root of another authority."""
    folder = machine.ca.parent / "other"
    if not folder.exists():
        authority.init_ca(folder, now=NOW)
    return folder / "ca.pem"
