"""Whatever a driver, a kernel or a program writes, looking at it ends in facts or in one error."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.discovery import (
    bus_ids,
    fabrics,
    gpus,
    host,
    infiniband,
    memory,
    nvidia_smi,
    nvlink,
    xids,
)
from llmgw.agent.discovery.infiniband import Hca, HcaPort
from llmgw.agent.discovery.nvlink import Links
from llmgw.config.tending import FabricAdapters
from llmgw.domain.nodes import Gpu
from llmgw.errors import DiscoveryFailed

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
FIELD = TEXT | st.sampled_from(["0", "81559", "[N/A]", "[Not Supported]", "-1", "nan", "1e999", ""])
ROW = st.lists(FIELD, max_size=16).map(", ".join)
BUS = st.sampled_from(["0000:1b:00.0", "00000000:43:00.0", "0001:43:00.0", "52:00.0", ""])


@given(st.lists(ROW, max_size=4).map("\n".join))
def test_rows_of_nvidia_smi_become_cards_or_one_error(text):
    with contextlib.suppress(DiscoveryFailed):
        for card in nvidia_smi.parse(text):
            assert card.index >= 0
            assert card.memory_used_mib is None or isinstance(card.memory_used_mib, int)


@given(TEXT)
def test_files_of_the_kernel_become_facts_or_nothing(text):
    assert infiniband.rate(text) is None or infiniband.rate(text) >= 0 or text.strip()[0] == "-"
    assert infiniband.local_id(text) is None or isinstance(infiniband.local_id(text), int)
    assert infiniband.gid_prefix(text).count(":") in {0, 3}
    assert set(host.cpu_flags(text)) <= set(host.CPU_FLAGS)
    assert memory.parse(text) is None or memory.parse(text) > 0
    assert isinstance(host.driver_version(text), str)


@given(st.lists(TEXT | BUS.map(lambda bus: f"NVRM: Xid (PCI:{bus}): 79, x"), max_size=5))
def test_messages_of_the_kernel_become_faults_or_nothing(messages):
    found = xids.faults({}, messages)
    assert all(address == bus_ids.normal(address) for address in found)
    assert xids.faults(found, []) == found


@given(BUS | TEXT)
def test_an_address_has_one_spelling(bus_id):
    normal = bus_ids.normal(bus_id)
    assert bus_ids.normal(normal) == normal


@given(
    st.dictionaries(
        st.integers(0, 7),
        st.builds(
            Links,
            bus_id=BUS,
            remotes=st.lists(BUS, max_size=4).map(tuple),
            has_switch=st.booleans(),
            clique=st.sampled_from(["", "a", "b"]),
        ),
        max_size=6,
    )
)
def test_no_card_is_its_own_peer_and_switches_lead_both_ways(links):
    found = nvlink.peers(links)
    assert found.keys() == links.keys()
    for index, peers in found.items():
        assert index not in peers
        assert len(set(peers)) == len(peers)
        assert set(peers) <= links.keys()
        for other in peers:
            if links[index].has_switch and links[other].has_switch:
                is_one_group = links[index].clique == links[other].clique
                assert not is_one_group or index in found[other]


PORTS = st.builds(
    HcaPort,
    num=st.integers(1, 2),
    state=st.sampled_from(["ACTIVE", "active", "INIT", "DOWN", ""]),
    phys_state=st.sampled_from(["LinkUp", "Polling", ""]),
    rate_gbps=st.none() | st.integers(0, 800),
    link_layer=st.sampled_from(["InfiniBand", "Ethernet", ""]),
)
NAMES = st.sampled_from(["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"])
ADAPTERS = st.lists(
    st.builds(Hca, name=NAMES, ports=st.lists(PORTS, max_size=2).map(tuple)),
    max_size=4,
    unique_by=lambda hca: hca.name,
)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), ADAPTERS)
def test_each_declared_adapter_is_usable_or_has_its_reason(declared, found):
    (check,) = fabrics.check([FabricAdapters(name="f", hcas=tuple(declared))], found)
    assert [name for name in declared if name in check.usable] == list(check.usable)
    assert len(check.problems) == len(declared) - len(check.usable)
    works = {hca.name for hca in found if any(port.is_active for port in hca.ports)}
    assert set(check.usable) <= works


CARDS = st.lists(
    st.builds(Gpu, index=st.integers(0, 4), uuid=st.sampled_from(["", "a", "b"]), name=TEXT),
    max_size=4,
    unique_by=lambda gpu: gpu.index,
).map(tuple)


@given(CARDS, CARDS)
def test_no_card_is_lost_sight_of(earlier, later):
    found = gpus.remembered(earlier, later)
    indices = [gpu.index for gpu in found]
    assert indices == sorted({gpu.index for gpu in (*earlier, *later)})
    for gpu in found:
        if gpu.index not in {one.index for one in later}:
            assert gpus.NOT_LISTED in gpu.problems
    assert gpus.remembered(found, later) == found
