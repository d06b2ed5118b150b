"""Cards and their links as the NVIDIA library tells them."""

import pynvml
import pytest

from llmgw.agent.discovery import bus_ids, nvml
from llmgw.errors import DiscoveryFailed
from tests.fakes.nvml import MIB, Card, FakeNvml


def test_a_card_is_read_into_every_field():
    library = FakeNvml(Card(uuid="GPU-7", utilization=12, memory=(81559 * 2**20 + 5, 2**20 * 9)))
    (card,) = nvml.read(library).gpus
    assert (card.index, card.uuid, card.gpu_class) == (0, "GPU-7", "h100-80g")
    assert (card.memory_total_mib, card.memory_used_mib) == (81559, 9)
    assert (card.compute_capability, card.pci_bus_id) == ("9.0", "00000000:1B:00.0")
    assert (card.driver_version, card.cuda_version) == ("550.90.07", "12.4")
    assert (card.temperature_c, card.ecc_errors, card.utilization_percent) == (31, 0, 12)
    assert card.problems == ()


def test_bytes_of_an_older_binding_are_text():
    library = FakeNvml(Card(name=b"NVIDIA L40S", bus_id=b"00000000:1B:00.0"))
    (card,) = nvml.read(library).gpus
    assert (card.name, card.pci_bus_id) == ("NVIDIA L40S", "00000000:1B:00.0")


def test_what_a_card_does_not_answer_is_unknown():
    library = FakeNvml(
        Card(
            bus_id=None, memory=None, capability=None, utilization=None, temperature=None, ecc=None
        ),
        driver=None,
        cuda=None,
    )
    (card,) = nvml.read(library).gpus
    assert (card.pci_bus_id, card.compute_capability) == ("", "")
    assert (card.driver_version, card.cuda_version) == ("", "")
    figures = (card.memory_total_mib, card.memory_used_mib, card.utilization_percent)
    assert (*figures, card.temperature_c, card.ecc_errors) == (None,) * 5
    assert card.problems == ()


def test_uncorrected_errors_put_a_card_out_of_use():
    (card,) = nvml.read(FakeNvml(Card(ecc=2))).gpus
    assert card.problems == ("2 uncorrected ECC errors",)


def test_links_name_the_other_cards_once_and_in_their_order():
    a, b, c = "00000000:1B:00.0", "0000:43:00.0", "0000:52:00.0"
    library = FakeNvml(
        Card(bus_id=a, links={0: "0000:52:00.0", 1: "00000000:43:00.0", 3: "0000:43:00.0"}),
        Card(bus_id=b, links={0: "0000:1b:00.0", 1: "0000:43:00.0"}),
        Card(bus_id=c, links={5: "0000:a0:00.0"}),
    )
    assert [card.nvlink_peers for card in nvml.read(library).gpus] == [(2, 1), (0,), ()]


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("0000:1b:00.0", "1b:00.0"),
        ("00000000:1B:00.0", "1b:00.0"),
        (" 0001:1B:00.0 ", "1:1b:00.0"),
        ("1b", "1b"),
    ],
)
def test_bus_ids_compare_equal_however_they_are_written(written, normal):
    assert bus_ids.normal(written) == normal


def test_a_lost_card_keeps_its_number_and_hides_no_other():
    library = FakeNvml(Card(uuid="a"), Card(lost="GPU is lost"), Card(uuid="c"))
    found = nvml.read(library).gpus
    assert [(card.index, card.uuid) for card in found] == [(0, "a"), (1, ""), (2, "c")]
    assert [card.problems for card in found] == [(), ("it cannot be asked: GPU is lost",), ()]


def test_the_library_is_closed_also_when_cards_cannot_be_listed():
    library = FakeNvml()
    library.cards = None
    with pytest.raises(DiscoveryFailed, match="NVML cannot list the cards: Not Supported"):
        nvml.read(library)
    assert library.n_open == 0


def test_memory_that_the_driver_keeps_for_itself_is_nobodys():
    idle = {"memory": (143771 * MIB, 0), "reserved": 640 * MIB}
    (card,) = nvml.read(FakeNvml(Card(**idle))).gpus
    assert card.memory_used_mib == 0
    (card,) = nvml.read(FakeNvml(Card(**idle, knows_second_form=False))).gpus
    assert card.memory_used_mib == 640


def test_power_is_whole_watts():
    (card,) = nvml.read(FakeNvml(Card(power_mw=71_862, power_limit_mw=700_000))).gpus
    assert (card.power_watts, card.power_limit_watts) == (72, 700)


SWITCH = "00000000:05:00.0"


def _switched(bus, **others):
    links = dict.fromkeys(range(18), SWITCH)
    return Card(bus_id=bus, links=links, switches=frozenset({SWITCH}), **others)


def test_cards_behind_switches_reach_each_other():
    library = FakeNvml(*(_switched(f"00000000:{b}:00.0") for b in ("1B", "43", "52")), Card())
    peers = [card.nvlink_peers for card in nvml.read(library).gpus]
    assert peers == [(1, 2), (0, 2), (0, 1), ()]


def test_a_fabric_manager_divides_cards_behind_switches():
    places = (("1B", 1), ("43", 1), ("52", 2), ("61", 2))
    library = FakeNvml(*(_switched(f"00000000:{bus}:00.0", clique=c) for bus, c in places))
    peers = [card.nvlink_peers for card in nvml.read(library).gpus]
    assert peers == [(1,), (0,), (3,), (2,)]


@pytest.mark.parametrize(
    ("card", "n_warnings"),
    [
        pytest.param(_switched("1B:00.0", clique=0, fabric_state=3), 0, id="set up"),
        pytest.param(_switched("1B:00.0", clique=0, fabric_state=2), 1, id="in progress"),
        pytest.param(_switched("1B:00.0", clique=0, fabric_state=1), 1, id="not started"),
        pytest.param(_switched("1B:00.0", clique=0, fabric_state=0), 0, id="not of this kind"),
        pytest.param(_switched("1B:00.0"), 0, id="an older card"),
        pytest.param(Card(clique=0, fabric_state=2), 0, id="without switches"),
    ],
)
def test_switches_that_nobody_has_set_up_are_warned_of(card, n_warnings):
    warnings = nvml.read(FakeNvml(card)).warnings
    assert ["nvidia-fabricmanager" in warning for warning in warnings] == [True] * n_warnings


def test_a_card_whose_place_is_unknown_has_unknown_links():
    (card,) = nvml.read(FakeNvml(Card(bus_id=None))).gpus
    assert card.nvlink_peers is None


def test_a_card_that_is_cut_is_out_of_use_and_names_its_parts():
    parts = ("MIG 3g.20gb", "MIG 4g.20gb")
    library = FakeNvml(Card(name="NVIDIA A100-SXM4-40GB", mig=1, instances=parts), Card(mig=0))
    cut, whole = nvml.read(library).gpus
    assert cut.mig_instances == parts
    (problem,) = cut.problems
    assert problem.startswith("MIG is on: cut into 1 x MIG 3g.20gb, 1 x MIG 4g.20gb;")
    assert (whole.mig_instances, whole.problems) == ((), ())


def test_a_cut_card_without_parts_is_out_of_use_too():
    (card,) = nvml.read(FakeNvml(Card(mig=1))).gpus
    assert card.problems[0].startswith("MIG is on: cut into nothing yet;")


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        pytest.param((4, 1, 0, 0), (), id="rows that were replaced are no problem"),
        pytest.param(
            (0, 1, 1, 0), ("a broken row of memory is replaced once the card is reset",), id="due"
        ),
        pytest.param((0, 9, 1, 1), ("a broken row of memory could not be replaced",), id="failed"),
    ],
)
def test_rows_of_memory_that_wait_for_a_reset_or_cannot_be_replaced_condemn(rows, problems):
    (card,) = nvml.read(FakeNvml(Card(remapped=rows))).gpus
    assert card.problems == problems


@pytest.mark.parametrize(
    ("recovery", "problems", "is_sound"),
    [
        (None, (), False),
        (0, (), True),
        (1, ("its driver says that it has to be reset",), False),
        (2, ("its driver says that its machine has to be booted",), False),
        (99, ("its driver says that it has to be recovered",), False),
    ],
)
def test_what_the_driver_wants_done_condemns_a_card(recovery, problems, is_sound):
    listing = nvml.read(FakeNvml(Card(recovery=recovery)))
    assert listing.gpus[0].problems == problems
    assert (0 in listing.sound) is is_sound


def test_cards_that_nothing_keeps_ready_are_warned_of():
    (warning,) = nvml.read(FakeNvml(Card(), Card(persistence=0))).warnings
    assert warning.startswith("persistence mode of the cards is off")
    assert nvml.read(FakeNvml(Card(), Card(persistence=None))).warnings == ()


def test_without_a_driver_it_says_so():
    with pytest.raises(DiscoveryFailed, match="NVML is not available: Driver Not Loaded"):
        nvml.read(FakeNvml(is_loaded=False))


def test_the_double_has_only_names_that_the_library_has():
    public = [name for name in dir(FakeNvml) if name.lower().startswith("nvml")]
    assert [name for name in public if not hasattr(pynvml, name)] == []
    constants = [name for name in public if name.isupper() and name != "NVMLError"]
    for name in constants:
        if name != "NVML_NVLINK_MAX_LINKS":
            assert getattr(FakeNvml, name) == getattr(pynvml, name)
