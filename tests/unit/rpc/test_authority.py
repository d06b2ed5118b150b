"""The private CA: what it makes can be believed, and nothing is lost by asking twice."""

from __future__ import annotations

import pytest

from llmgw.errors import Conflict, Invalid, Unknown
from llmgw.rpc import authority, certificates

NOW = 1_800_000_000.0
DAY_S = 86400.0


@pytest.fixture
def ca(tmp_path):
    authority.init_ca(tmp_path / "ca", now=NOW)
    return tmp_path / "ca"


@pytest.fixture
def node(ca, tmp_path):
    return authority.issue_client(ca, out=tmp_path / "node01", node_id="node01", now=NOW)


def problems(issued, *, node_id="node01", now=NOW, **paths):
    files = {"ca": issued.ca, "cert": issued.cert, "key": issued.key, **paths}
    return [str(p) for p in certificates.check_own_pair(**files, node_id=node_id, now=now)]


def test_a_fresh_pair_has_no_problem(node):
    assert problems(node) == []


def test_keys_are_readable_by_their_owner_only(ca, node):
    for key in (ca / "ca.key", node.key):
        assert key.stat().st_mode & 0o777 == 0o600


def test_a_node_gets_all_that_it_needs_and_not_the_key_of_the_authority(node):
    assert sorted(f.name for f in node.cert.parent.iterdir()) == [
        "ca.pem",
        "node01.key",
        "node01.pem",
    ]


def test_an_authority_is_never_overwritten(ca):
    before = (ca / "ca.key").read_bytes()
    with pytest.raises(Conflict, match=r"ca\.pem exists"):
        authority.init_ca(ca, now=NOW)
    assert (ca / "ca.key").read_bytes() == before


def test_an_authority_broken_in_the_middle_is_finished_with_its_key(ca):
    before = (ca / "ca.key").read_bytes()
    (ca / "ca.pem").unlink()
    assert authority.init_ca(ca, now=NOW).is_renewed
    assert (ca / "ca.key").read_bytes() == before


def test_a_server_is_valid_for_its_name_its_hosts_and_bare_addresses(ca, tmp_path):
    issued = authority.issue_server(
        ca, out=tmp_path / "cp", name="cp1", hosts=["cp1.lab", "10.0.0.1", "::1"], now=NOW
    )
    assert issued.facts.hosts == ("cp1", "cp1.lab", "10.0.0.1", "::1")
    assert issued.facts.usages == ("server",)


def test_issuing_again_keeps_key_and_hosts_and_renews_the_dates(ca, tmp_path):
    wish = {"out": tmp_path / "cp", "name": "cp1"}
    first = authority.issue_server(ca, hosts=["10.0.0.1"], now=NOW, **wish)
    key = first.key.read_bytes()
    again = authority.issue_server(ca, hosts=["10.0.0.2"], now=NOW + 30 * DAY_S, **wish)
    assert again.is_renewed
    assert again.key.read_bytes() == key
    assert again.facts.hosts == ("cp1", "10.0.0.2", "10.0.0.1")
    assert again.facts.not_after_at == first.facts.not_after_at + 30 * DAY_S


def test_a_server_and_a_node_of_one_name_do_not_overwrite_each_other(ca, tmp_path):
    authority.issue_server(ca, out=tmp_path / "box", name="box", hosts=[], now=NOW)
    with pytest.raises(Conflict, match="server certificate; give another --out"):
        authority.issue_client(ca, out=tmp_path / "box", node_id="box", now=NOW)


def test_a_folder_of_another_authority_is_not_mixed_up(ca, node, tmp_path):
    authority.init_ca(tmp_path / "other", now=NOW)
    with pytest.raises(Conflict, match="another authority"):
        authority.issue_client(tmp_path / "other", out=node.cert.parent, node_id="node01", now=NOW)


def test_without_an_authority_the_command_that_makes_one_is_named(tmp_path):
    with pytest.raises(Unknown, match="llmgw ctl cert init-ca --dir"):
        authority.issue_client(tmp_path, out=tmp_path, node_id="node01", now=NOW)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "node 1", "-x", "x" * 64])
def test_a_name_that_is_no_node_name_is_refused(ca, tmp_path, name):
    with pytest.raises(Invalid):
        authority.issue_client(ca, out=tmp_path, node_id=name, now=NOW)


@pytest.mark.parametrize("host", ["https://cp1", "cp1:7443", "a b", "*"])
def test_a_host_that_is_none_is_refused(ca, tmp_path, host):
    with pytest.raises(Invalid, match="without scheme or port"):
        authority.issue_server(ca, out=tmp_path, name="cp1", hosts=[host], now=NOW)


def test_a_folder_that_cannot_be_written_is_named(ca, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="file"):
        authority.issue_client(ca, out=tmp_path / "file", node_id="node01", now=NOW)


# Judging one's own pair


def test_missing_files_are_all_named_at_once(node, tmp_path):
    absent = tmp_path / "absent"
    found = problems(node, ca=absent / "ca.pem", cert=absent / "c.pem", key=absent / "c.key")
    assert [p.partition(": ")[2] for p in found] == ["no such file"] * 3


def test_several_mistakes_are_listed_together(ca, node, tmp_path):
    other = authority.issue_client(ca, out=tmp_path / "o", node_id="node02", now=NOW)
    found = problems(node, key=other.key, node_id="node03", now=NOW + 400 * DAY_S)
    assert len(found) == 3
    assert "expired on 2028-01-15" in found[0]
    assert "is not the key of" in found[1]
    assert "names 'node01', but this node is 'node03'" in found[2]


def test_a_clock_that_is_behind_is_suspected(node):
    assert any("check this machine's clock" in p for p in problems(node, now=NOW - DAY_S))


def test_a_certificate_of_a_foreign_authority_is_found(node, tmp_path):
    authority.init_ca(tmp_path / "other", now=NOW)
    found = problems(node, ca=tmp_path / "other" / "ca.pem")
    assert len(found) == 1
    assert "was signed by 'llmgw CA" in found[0]


def test_a_foreign_authority_of_the_same_name_is_found(node, tmp_path):
    """The name of the issuer proves nothing; the signature does."""
    authority.init_ca(tmp_path / "twin", now=NOW, name=node.facts.issuer)
    assert len(problems(node, ca=tmp_path / "twin" / "ca.pem")) == 1


def test_a_servers_certificate_is_no_nodes_certificate(ca, tmp_path):
    issued = authority.issue_server(ca, out=tmp_path / "s", name="node01", hosts=[], now=NOW)
    assert any("issue-client" in p for p in problems(issued))


def test_a_nodes_certificate_is_no_servers_certificate(node):
    found = certificates.check_server_pair(ca=node.ca, cert=node.cert, key=node.key, now=NOW)
    assert ["issue-server" in str(p) for p in found] == [True]


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe"], ids=["empty", "text", "bytes"])
def test_files_that_hold_something_else_are_named(node, tmp_path, content):
    odd = tmp_path / "odd"
    odd.write_bytes(content)
    found = problems(node, ca=odd, cert=odd, key=odd)
    assert len(found) == 3
    assert all("in PEM form" in p for p in found)


def test_an_intermediate_in_the_certificate_file_is_followed(node, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes(node.cert.read_bytes() + node.ca.read_bytes())
    assert problems(node, cert=both) == []


def test_a_bundle_of_two_authorities_serves_a_change_of_authority(node, tmp_path):
    other = authority.init_ca(tmp_path / "other", now=NOW)
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(other.cert.read_bytes() + node.ca.read_bytes())
    assert problems(node, ca=bundle) == []


def test_inspect_shows_what_a_person_compares(node):
    facts = certificates.inspect(node.cert)
    assert facts == node.facts
    assert facts.subject == "node01"
    assert facts.usages == ("client",)
    assert not facts.is_ca
    assert certificates.inspect(node.ca).is_ca
