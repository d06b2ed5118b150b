"""Whatever is sent to the admin API, it answers in its own shape and never with a fault of ours."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from llmgw.api.application import create_app
from llmgw.config import store_address
from llmgw.config.settings import ServerSettings
from llmgw.kit.clock import SystemClock
from llmgw.serve import accounts
from llmgw.store.opening import Store
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening

EXAMPLES = 12
"""Of each operation; several hundred requests in all."""


def described():
    return create_app(readiness=FakeReadiness(), control=control_of(FakeFleet())).openapi()


SCHEMA = schemathesis.openapi.from_dict(described())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}


@pytest.fixture(scope="module")
def url(planted_file, tmp_path_factory):
    """An admin port with a real store behind it."""
    path = shutil.copy(planted_file, tmp_path_factory.mktemp("any") / "store.db")
    store = Store(store_address.parse(str(path)))
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    control = dataclasses.replace(
        control_of(FakeFleet()),
        keys=joined.keys,
        tree=joined.directory,
        people=joined.people.desk,
    )
    app = create_app(readiness=FakeReadiness(), control=control)

    loops = set()

    async def opened(scope, receive, send):
        loops.add(asyncio.get_running_loop())
        await store.open(may_migrate=False)  # on the loop that serves; once it costs something
        await app(scope, receive, send)

    with listening(opened) as found:
        yield found
        for loop in loops:
            asyncio.run_coroutine_threadsafe(store.close(), loop).result(timeout=20)


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_meets_a_fault_of_ours(label, url):
    @given(case=OPERATIONS[label].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        answer = case.call(base_url=url)
        assert answer.status_code < 500 or answer.status_code in {501, 503, 504}, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]["request_id"]

    ask()
