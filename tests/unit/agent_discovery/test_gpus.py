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


def test_a_card_that_is_listed_no_longer_stays_and_is_out_of_use():
    earlier = [_card(0), _card(1, memory_used_mib=9, power_watts=70)]
    first, lost = gpus.remembered(earlier, [_card(0)])
    assert first == _card(0)
    assert lost == _card(1, problems=("the driver lists it no longer",))
    assert gpus.remembered([first, lost], [_card(0), _card(1)]) == (_card(0), _card(1))


def test_a_card_of_which_only_the_number_is_left_keeps_what_was_known_of_it():
    earlier = [_card(0, memory_total_mib=81559, memory_used_mib=9, problems=("old",))]
    nameless = Gpu(index=0, uuid="", name="", problems=("it cannot be asked: GPU is lost",))
    (card,) = gpus.remembered(earlier, [nameless])
    assert card.gpu_class == "h100-80g"
    assert (card.memory_used_mib, card.problems) == (None, ("it cannot be asked: GPU is lost",))


def test_what_the_kernel_says_counts_unless_the_driver_knows_better():
    cards = [_card(i, pci_bus_id=f"00000000:{i + 1}B:00.0") for i in range(3)]
    faults = {"1b:00.0": "Xid 79", "2b:00.0": "Xid 79"}
    problems = [card.problems for card in gpus.faulted(cards, faults, sound={1})]
    assert problems == [("Xid 79",), (), ()]
