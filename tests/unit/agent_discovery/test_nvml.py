"""Cards and their links as the NVIDIA library tells them."""

import pynvml
import pytest

from llmgw.agent.discovery import nvml
from llmgw.errors import DiscoveryFailed
from tests.fakes.nvml import Card, FakeNvml


def test_a_card_is_read_into_every_field():
    library = FakeNvml(Card(uuid="GPU-7", utilization=12, memory=(81559 * 2**20 + 5, 2**20 * 9)))
    (card,) = nvml.read(library)
    assert (card.index, card.uuid, card.gpu_class) == (0, "GPU-7", "h100-80g")
    assert (card.memory_total_mib, card.memory_used_mib) == (81559, 9)
    assert (card.compute_capability, card.pci_bus_id) == ("9.0", "00000000:1B:00.0")
    assert (card.driver_version, card.cuda_version) == ("550.90.07", "12.4")
    assert (card.temperature_c, card.ecc_errors, card.utilization_percent) == (31, 0, 12)
    assert card.problems == ()


def test_bytes_of_an_older_binding_are_text():
    library = FakeNvml(Card(name=b"NVIDIA L40S", bus_id=b"00000000:1B:00.0"))
    (card,) = nvml.read(library)
    assert (card.name, card.pci_bus_id) == ("NVIDIA L40S", "00000000:1B:00.0")


def test_what_a_card_does_not_answer_is_unknown():
    library = FakeNvml(
        Card(
            bus_id=None, memory=None, capability=None, utilization=None, temperature=None, ecc=None
        ),
        driver=None,
        cuda=None,
    )
    (card,) = nvml.read(library)
    assert (card.pci_bus_id, card.compute_capability) == ("", "")
    assert (card.driver_version, card.cuda_version) == ("", "")
    figures = (card.memory_total_mib, card.memory_used_mib, card.utilization_percent)
    assert (*figures, card.temperature_c, card.ecc_errors) == (None,) * 5
    assert card.problems == ()


def test_uncorrected_errors_put_a_card_out_of_use():
    (card,) = nvml.read(FakeNvml(Card(ecc=2)))
    assert card.problems == ("2 uncorrected ECC errors",)


def test_links_name_the_other_cards_once_and_in_their_order():
    a, b, c = "00000000:1B:00.0", "0000:43:00.0", "0000:52:00.0"
    library = FakeNvml(
        Card(bus_id=a, links={0: "0000:52:00.0", 1: "00000000:43:00.0", 3: "0000:43:00.0"}),
        Card(bus_id=b, links={0: "0000:1b:00.0", 1: "0000:43:00.0"}),
        Card(bus_id=c, links={5: "0000:a0:00.0"}),
    )
    assert [card.nvlink_peers for card in nvml.read(library)] == [(2, 1), (0,), ()]


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
    assert nvml.normal_bus_id(written) == normal


def test_the_library_is_closed_also_when_a_card_is_lost():
    library = FakeNvml(Card(), Card())
    library.broken_handles = {1}
    with pytest.raises(DiscoveryFailed, match="GPU is lost"):
        nvml.read(library)
    assert library.n_open == 0


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
