"""Which cards are out of use, and what is news about them."""

import pytest

from llmgw.agent.discovery import gpus
from llmgw.domain.nodes import Gpu


def _card(index=0, **fields):
    return Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H100 80GB HBM3", **fields)


@pytest.mark.parametrize(
    ("ecc_errors", "problems"),
    [
        (None, ()),
        (0, ()),
        (1, ("1 uncorrected ECC error",)),
        (3, ("3 uncorrected ECC errors",)),
    ],
)
def test_a_card_with_uncorrected_errors_is_condemned(ecc_errors, problems):
    assert gpus.condemned(_card(ecc_errors=ecc_errors)).problems == problems


@pytest.mark.parametrize(
    ("used_mib", "held", "said"),
    [
        pytest.param(None, (), None, id="unknown"),
        pytest.param(512, (), None, id="the driver's own"),
        pytest.param(513, (), "513 MiB held by another process", id="foreign"),
        pytest.param(40_000, (0, 2), None, id="our own engine"),
        pytest.param(40_000, (1,), "40000 MiB held by another process", id="our engine elsewhere"),
    ],
)
def test_memory_is_foreign_only_on_a_card_that_we_do_not_hold(used_mib, held, said):
    assert gpus.foreign_memory(_card(memory_used_mib=used_mib), held_indices=held) == said


def test_temperature_is_never_a_problem():
    assert gpus.condemned(_card(temperature_c=95)).problems == ()


def test_only_problems_that_were_not_there_are_news():
    earlier = [_card(0, problems=("old",)), _card(1)]
    later = [_card(0, problems=("old",)), _card(1, problems=("new",)), _card(2, problems=("x",))]
    assert gpus.news(earlier, later) == ("GPU 1: new", "GPU 2: x")
