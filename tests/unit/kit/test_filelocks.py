"""Locks on files: who may have one, and who has signed it."""

from __future__ import annotations

import os

import pytest

from llmgw.kit import filelocks


@pytest.fixture
def opened(tmp_path):
    """Descriptors of one lock file, each as another process would have it."""
    made = []

    def one_more():
        made.append(filelocks.open_file(tmp_path / "lock", mode=0o600))
        return made[-1]

    yield one_more
    for fd in made:
        os.close(fd)


def test_a_lock_is_had_by_one_alone_until_its_descriptor_closes(tmp_path, opened):
    holder = filelocks.open_file(tmp_path / "lock", mode=0o600)
    second = opened()
    assert filelocks.take(holder)
    assert not filelocks.take(second)
    os.close(holder)
    assert filelocks.take(second)


def test_those_who_share_keep_out_only_who_wants_it_alone(opened):
    first, second, third = opened(), opened(), opened()
    assert filelocks.take(first, is_shared=True)
    assert filelocks.take(second, is_shared=True)
    assert not filelocks.take(third)


def test_a_lock_names_who_signed_it_last(opened):
    lock = opened()
    assert filelocks.signed_by(lock) is None
    os.pwrite(lock, b"4194304 and a long tail\n", 0)
    assert filelocks.signed_by(lock) is None
    filelocks.sign(lock)
    assert filelocks.signed_by(opened()) == os.getpid()


def test_a_lock_that_cannot_be_written_is_held_without_a_name():
    full = os.open("/dev/full", os.O_RDWR)
    try:
        filelocks.sign(full)
        assert filelocks.signed_by(full) is None
    finally:
        os.close(full)
