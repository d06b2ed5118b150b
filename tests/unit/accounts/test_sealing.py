"""What seals a key for its owner."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.accounts import sealing
from llmgw.errors import Internal

SECRET = "sk-of-nobody"
SEALED = sealing.seal(SECRET, key_id="k1", now=10.0)


def test_the_token_of_the_link_opens_what_it_sealed():
    assert sealing.unseal(SEALED.claim, SEALED.token) == SECRET
    assert SEALED.claim.expires_at == 10.0 + 72 * 3600


def test_what_is_kept_tells_neither_key_nor_token():
    kept = repr(dataclasses.astuple(SEALED.claim))
    assert SECRET not in kept
    assert SEALED.token not in kept
    assert SEALED.token not in repr(SEALED)


@pytest.mark.parametrize(
    "changed",
    [{"key_id": "k2"}, {"sealed": SEALED.claim.sealed[:-1] + b"\x00"}, {"sealed": b""}],
    ids=["another key", "another text", "nothing"],
)
def test_what_was_changed_opens_nothing(changed):
    with pytest.raises(Internal, match="was damaged"):
        sealing.unseal(dataclasses.replace(SEALED.claim, **changed), SEALED.token)


def test_another_token_opens_nothing():
    other = sealing.seal(SECRET, key_id="k1", now=10.0)
    with pytest.raises(Internal):
        sealing.unseal(SEALED.claim, other.token)
