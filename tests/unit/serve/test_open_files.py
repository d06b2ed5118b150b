"""What the settings let in is told at a start where it is more than may be open."""

from __future__ import annotations

import logging
import resource

import pytest

from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.kit import openfiles
from llmgw.serve import open_files

SET = {"admission": AdmissionSettings(queue_max=100), "on_demand": OnDemandSettings(hold_max=50)}


@pytest.fixture(autouse=True)
def _as_before():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_full_queues_need_a_client_and_an_engine_for_each_that_waits():
    assert open_files.needed(models=3, endpoints=10, **SET) == 64 + 20 + 2 * 3 * 150
    assert open_files.needed(models=0, endpoints=0, **SET) == 64 + 2 * 150


@pytest.mark.parametrize(("models", "warnings"), [(1, []), (100_000, ["few_open_files"])])
def test_start_warns_only_of_too_few_files_and_takes_all_that_there_are(caplog, models, warnings):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    with caplog.at_level(logging.WARNING):
        open_files.take(models=models, endpoints=1, **SET)
    assert [record.message for record in caplog.records] == warnings
    assert openfiles.most() == hard


def test_one_more_file_can_be_opened_or_not():
    assert openfiles.is_any_left()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    assert not openfiles.is_any_left()
