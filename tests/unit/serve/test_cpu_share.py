"""How many threads an engine gets."""

from __future__ import annotations

import os

import pytest

from llmgw.serve import cpu_share


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with so many hardware threads, cores, and a quota."""

    def made(*, threads, cores, quota="max 100000"):
        blocks = [
            f"processor\t: {number}\nphysical id\t: 0\ncore id\t\t: {number % cores}\n"
            for number in range(threads)
        ]
        (tmp_path / "cpuinfo").write_text("\n".join(blocks))
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(threads)))
        return cpu_share.engine_threads(cpuinfo=tmp_path / "cpuinfo", quota=tmp_path / "cpu.max")

    return made


@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        pytest.param({"threads": 1, "cores": 1}, 1, id="at least one"),
        pytest.param({"threads": 2, "cores": 2}, 1, id="one is left for the rest"),
        pytest.param({"threads": 8, "cores": 4}, 3, id="second hardware threads do not count"),
        pytest.param({"threads": 128, "cores": 64}, 16, id="not more than help"),
        pytest.param(
            {"threads": 64, "cores": 64, "quota": "400000 100000"}, 3, id="a container's quota"
        ),
        pytest.param(
            {"threads": 4, "cores": 4, "quota": "50000 100000"}, 1, id="less than one processor"
        ),
    ],
)
def test_an_engine_gets_the_cores_that_are_left(machine, shape, threads):
    assert machine(**shape) == threads


def test_a_machine_that_tells_nothing_is_counted_by_affinity(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    nowhere = tmp_path / "nosuch"
    assert cpu_share.engine_threads(cpuinfo=nowhere, quota=nowhere) == 2
