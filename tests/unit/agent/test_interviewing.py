"""What an engine says of itself, and what is made of answers that are none."""

from __future__ import annotations

import httpx
import pytest

from llmgw.agent.supervisor import interviewing
from llmgw.agent.supervisor.interviewing import Figures, HttpCheck

CHECK = HttpCheck(
    address="127.0.0.1",
    port=20000,
    health_path="/health",
    model="demo",
    request_metrics=("e:running", "e:waiting"),
    work_metrics=("e:tokens_total", "e:prompts_total"),
)
MODELS = {"data": [{"id": "other"}, {"id": "demo"}]}
WELL = {"/health": (200, "ok"), "/v1/models": (200, MODELS)}
PAGE = 'e:running{model="a",x="}"} 2\ne:running{model="b"} 1\ne:waiting 4\ne:tokens_total 7.5\n'


def client(answers):
    """A client of an engine with these answers by path; one that has none does not answer."""

    def answer(request):
        found = answers.get(request.url.path)
        if found is None:
            raise httpx.ReadTimeout("silent", request=request)
        status, body = found
        return httpx.Response(status, **{"text" if isinstance(body, str) else "json": body})

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("answers", "model", "expected"),
    [
        pytest.param(WELL, "demo", "", id="serves"),
        pytest.param({**WELL, "/health": (503, "loading")}, "demo", "health: ", id="loads"),
        pytest.param({**WELL, "/health": (204, "")}, "demo", "health: ", id="almost-200"),
        pytest.param(WELL, "third", "does not serve 'third' but other, demo", id="other-model"),
        pytest.param({**WELL, "/v1/models": (200, "no")}, "demo", "does not serve", id="no-json"),
        pytest.param(
            {**WELL, "/v1/models": (200, "[" * 100_000)}, "demo", "does not serve", id="too-deep"
        ),
        pytest.param({**WELL, "/v1/models": (401, "")}, "demo", "answers 401", id="no-entry"),
        pytest.param({"/health": (200, "ok")}, "", "", id="any-model-will-do"),
        pytest.param({}, "demo", "does not answer (ReadTimeout)", id="unreachable"),
    ],
)
async def test_an_engine_serves_when_it_is_healthy_and_has_the_model(answers, model, expected):
    check = HttpCheck(address="127.0.0.1", port=20000, health_path="/health", model=model)
    async with client(answers) as asking:
        problem = await interviewing.serving_problem(check, client=asking)
    assert bool(problem) == bool(expected)
    assert expected in problem


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            {"/metrics": (200, PAGE)},
            Figures(answers=True, requests=7.0, work_done=7.5),
            id="told",
        ),
        pytest.param(
            {"/metrics": (200, "e:running 2\n")}, Figures(answers=True), id="half-a-sum-is-none"
        ),
        pytest.param(
            {"/metrics": (200, "e:running x\ne:waiting 0\n")}, Figures(answers=True), id="no-number"
        ),
        pytest.param({"/metrics": (404, PAGE)}, Figures(answers=True), id="no-page"),
        pytest.param(
            {"/health": (500, "")}, Figures(answers=True, is_late=True), id="ill-and-busy"
        ),
        pytest.param({}, Figures(answers=False), id="silent"),
    ],
)
async def test_figures_are_told_absent_late_or_none_at_all(answers, expected):
    async with client(answers) as asking:
        assert await interviewing.figures(CHECK, client=asking) == expected


async def test_an_engine_without_metrics_is_asked_for_its_health_alone():
    check = HttpCheck(address="127.0.0.1", port=20000, health_path="/health", model="")
    async with client({"/health": (503, "")}) as asking:
        assert await interviewing.figures(check, client=asking) == Figures(answers=True)
