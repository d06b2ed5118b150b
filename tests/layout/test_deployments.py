"""Tests that run beside each other do not meet."""

from __future__ import annotations

from tests.fakes.deployment import Deployment


def test_engines_of_two_deployments_never_listen_on_one_address(tmp_path):
    """All begin at the same port: one of two that load there would die of the other."""
    here, there = Deployment(tmp_path / "here"), Deployment(tmp_path / "there")
    addresses = [made.address(number) for made in (here, there) for number in (1, 2, 3)]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("127.") for address in addresses)
