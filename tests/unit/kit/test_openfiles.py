"""The bound on open files is raised where it may be, and told where it may not."""

from __future__ import annotations

import resource

import pytest

from llmgw.errors import Invalid
from llmgw.kit import openfiles


@pytest.fixture(autouse=True)
def _as_before():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], before[1]))


def bound():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def lower(soft):
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )


def test_a_low_bound_is_raised_to_what_is_needed():
    lower(512)
    openfiles.need(700)
    assert bound() == 700


def test_a_bound_that_suffices_is_left_as_it_is():
    lower(512)
    openfiles.need(300)
    assert bound() == 512


def test_what_the_system_does_not_allow_is_told_with_the_way_out():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this system has no bound")
    with pytest.raises(Invalid, match=rf"at most {hard} are allowed here; raise the bound"):
        openfiles.need(hard + 1)


def test_a_server_takes_all_that_it_may_have():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    lower(512)
    openfiles.take_all()
    assert bound() == hard
