"""When ``llmgw up`` goes on waiting, is done, or gives up."""

from __future__ import annotations

import pytest

from llmgw.domain.views import FailureView, ModelStatus, ModelView
from llmgw.errors import EngineFailed
from llmgw.serve.awaiting import Awaiting


def model(name="m", status=ModelStatus.LOADING, *, want=1, **others):
    return ModelView(name=name, status=status, want=want, ready=0, starting=0, **others)


def failure(replica="m-1", **others):
    return FailureView(replica_id=replica, error="it ended", ago_s=0.0, **others)


@pytest.fixture
def look():
    awaiting = Awaiting()

    def look(*models, serving=(), now=0.0):
        return awaiting.look(models, serves=lambda name: name in serving, now=now)

    return look


def test_a_model_that_loads_is_waited_for(look):
    seen = look(model())
    assert (seen.serving, seen.is_over) == ((), False)


def test_it_is_over_when_all_that_are_wanted_serve(look):
    seen = look(model("m"), model("off", ModelStatus.OFF, want=0), serving=["m"])
    assert (seen.serving, seen.is_over) == (("m",), True)


def test_one_that_serves_is_told_while_another_loads(look):
    seen = look(model("m"), model("n"), serving=["n"])
    assert (seen.serving, seen.is_over) == (("n",), False)


def test_an_engine_gets_a_second_try(look):
    assert not look(model(last_failure=failure("m-1"))).is_over
    assert not look(model(last_failure=failure("m-1"))).is_over
    with pytest.raises(EngineFailed):
        look(model(last_failure=failure("m-2")))


def test_giving_up_shows_the_end_of_what_the_engine_said(look):
    look(model(last_failure=failure("m-1")))
    lines = tuple(f"line {number}" for number in range(100))
    with pytest.raises(EngineFailed) as raised:
        look(model(last_failure=failure("m-2", exit_code=1, last_output=lines)))
    assert raised.value.message.startswith("m does not start: it ended (exit code 1)\n  | line 80")
    assert raised.value.message.endswith("| line 99")


def test_a_model_that_fits_nowhere_is_given_up_after_a_while(look):
    unplaced = model(status=ModelStatus.UNPLACED, reason="no engine")
    assert not look(unplaced, now=0.0).is_over
    assert not look(unplaced, now=4.9).is_over
    with pytest.raises(EngineFailed, match="no engine"):
        look(unplaced, now=5.0)


def test_a_model_that_was_unplaced_for_a_moment_is_waited_for(look):
    unplaced = model(status=ModelStatus.UNPLACED)
    look(unplaced, now=0.0)
    look(model(), now=4.0)
    assert not look(unplaced, now=6.0).is_over


def test_one_that_is_given_up_does_not_take_the_others_along(look):
    look(model("m"), model("n", last_failure=failure("n-1")))
    seen = look(model("m"), model("n", last_failure=failure("n-2")), serving=["m"])
    assert seen.is_over
    assert seen.serving == ("m",)
    assert "n does not start" in seen.failures[0]
