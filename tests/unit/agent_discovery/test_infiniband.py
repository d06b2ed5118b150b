"""Adapters read from a folder shaped like sysfs, and fabrics held against them."""

import pytest

from llmgw.agent.discovery import fabrics, infiniband
from llmgw.agent.discovery.infiniband import Hca, HcaPort
from llmgw.config.tending import FabricAdapters
from llmgw.domain.nodes import Fabric
from llmgw.errors import DiscoveryFailed

UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "200 Gb/sec (4X HDR)"}


def _adapter(root, name, *, ports, pci="0000:17:00.0", numa="1", firmware="20.39.3004"):
    """One adapter as the kernel shows it; ``ports`` holds the files of each port."""
    device = root.parent / "devices" / pci
    device.mkdir(parents=True, exist_ok=True)
    (device / "numa_node").write_text(f"{numa}\n")
    folder = root / name
    (folder / "ports").mkdir(parents=True)
    (folder / "device").symlink_to(device)
    (folder / "fw_ver").write_text(f"{firmware}\n")
    for number, files in ports.items():
        port = folder / "ports" / number
        (port / "gids").mkdir(parents=True)
        for file, text in files.items():
            (port / file).write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "infiniband"
    made.mkdir()
    return made


def test_adapters_come_by_name_with_all_that_their_files_say(root):
    _adapter(root, "mlx5_2", ports={"1": UP}, pci="0000:31:00.0", numa="-1")
    port = {
        **UP,
        "link_layer": "InfiniBand",
        "gids/0": "FE80:0000:0000:0000:506b:4b03:00c2:1a30",
        "lid": "0x1a",
        "sm_lid": "3",
    }
    _adapter(root, "mlx5_0", ports={"1": port, "not-a-port": {}})
    _adapter(root, "mlx5_1", ports={"2": {"state": "1: DOWN"}, "1": {**UP, "rate": ""}})
    found = infiniband.read(root)
    assert [hca.name for hca in found] == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert found[0] == Hca(
        name="mlx5_0",
        ports=(
            HcaPort(
                num=1,
                state="ACTIVE",
                phys_state="LinkUp",
                rate_gbps=200,
                link_layer="InfiniBand",
                gid_prefix="fe80:0000:0000:0000",
                lid=26,
                sm_lid=3,
            ),
        ),
        pci_addr="0000:17:00.0",
        numa_node=1,
        firmware_version="20.39.3004",
    )
    assert [(port.num, port.is_active) for port in found[1].ports] == [(1, True), (2, False)]
    assert found[1].ports[0].rate_gbps is None
    assert found[2].numa_node is None


def test_the_link_layer_of_roce_is_kept(root):
    _adapter(root, "mlx5_0", ports={"1": {**UP, "link_layer": "Ethernet"}})
    assert infiniband.read(root)[0].ports[0].link_layer == "Ethernet"


def test_no_folder_means_no_adapters(tmp_path):
    assert infiniband.read(tmp_path / "none") == ()


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DiscoveryFailed, match="cannot be listed"):
        infiniband.read(file)


def test_an_adapter_without_ports_does_not_hide_the_others(root):
    (root / "broken").mkdir()
    _adapter(root, "mlx5_0", ports={"1": UP})
    assert [hca.name for hca in infiniband.read(root)] == ["mlx5_0"]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200 Gb/sec (4X HDR)", 200),
        ("100 Gb/sec (4X EDR)", 100),
        ("2.5 Gb/sec (1X SDR)", 2),
        ("", None),
        ("fast", None),
        ("nan", None),
    ],
)
def test_a_rate_is_whole_gigabits(text, rate):
    assert infiniband.rate(text) == rate


@pytest.mark.parametrize(
    ("text", "word"),
    [("4: ACTIVE", "ACTIVE"), ("ACTIVE", "ACTIVE"), ("", ""), ("5: LinkUp", "LinkUp")],
)
def test_a_state_is_its_word(text, word):
    assert infiniband.state_word(text) == word


@pytest.mark.parametrize(("text", "number"), [("0x1a", 26), ("0X1A", 26), ("12", 12), ("", None)])
def test_a_lid_is_hexadecimal_or_decimal(text, number):
    assert infiniband.local_id(text) == number


@pytest.mark.parametrize(
    ("gid", "prefix"),
    [
        ("fe80:0:0:0:1:2:3:4", "fe80:0:0:0"),
        ("fec0::1", ""),
        ("", ""),
        ("a:b:c", ""),
    ],
)
def test_a_prefix_needs_four_groups(gid, prefix):
    assert infiniband.gid_prefix(gid) == prefix


def _hca(name, *ports):
    made = (
        HcaPort(num=i, state=state, phys_state="LinkUp", rate_gbps=rate)
        for i, (state, rate) in enumerate(ports, start=1)
    )
    return Hca(name=name, ports=tuple(made))


def _check(declared, *found):
    (result,) = fabrics.check([declared], found)
    return result


def test_an_adapter_that_is_not_there_is_named_with_those_that_are():
    declared = FabricAdapters(name="ib", hcas=("mlx5_0", "mlx5_9"))
    result = _check(declared, _hca("mlx5_0", ("ACTIVE", 200)), _hca("mlx5_1", ("ACTIVE", 200)))
    assert result.fabric == Fabric(name="ib", hcas=("mlx5_0",), rate_gbps=200)
    assert result.problems == ("adapter mlx5_9 was not found; found: mlx5_0, mlx5_1",)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param((), "adapter mlx5_0 was not found; found: none", id="none"),
        pytest.param(
            (_hca("mlx5_0", ("INIT", 200)),),
            "adapter mlx5_0 has no active port: port 1 is INIT/LinkUp "
            "(linked, but no subnet manager answers)",
            id="no subnet manager",
        ),
        pytest.param(
            (_hca("mlx5_0", ("DOWN", 200), ("DOWN", None)),),
            "adapter mlx5_0 has no active port: port 1 is DOWN/LinkUp, port 2 is DOWN/LinkUp",
            id="down",
        ),
        pytest.param(
            (_hca("mlx5_0"),), "adapter mlx5_0 has no active port: no ports", id="no ports"
        ),
    ],
)
def test_a_fabric_without_an_active_port_is_not_usable_and_says_why(found, problem):
    result = _check(FabricAdapters(name="ib", hcas=("mlx5_0",)), *found)
    assert not result.is_usable
    assert result.problems == (problem,)
    assert result.rate_gbps is None


@pytest.mark.parametrize(
    ("ports_by_name", "declared_gbps", "rate"),
    [
        pytest.param({"a": [400], "b": [100]}, None, 100, id="slowest adapter"),
        pytest.param({"a": [100, 200]}, None, 200, id="fastest port"),
        pytest.param({"a": [None], "b": [200]}, None, 200, id="one tells none"),
        pytest.param({"a": [None]}, 400, 400, id="declared where none is told"),
        pytest.param({"a": [100]}, 400, 100, id="measured wins over declared"),
    ],
)
def test_the_rate_is_the_measured_one_of_the_slowest_adapter(ports_by_name, declared_gbps, rate):
    declared = FabricAdapters(name="ib", hcas=tuple(ports_by_name), rate_gbps=declared_gbps)
    found = [_hca(n, *(("ACTIVE", r) for r in rates)) for n, rates in ports_by_name.items()]
    assert _check(declared, *found).rate_gbps == rate


def test_a_card_with_one_live_port_of_two_is_usable():
    declared = FabricAdapters(name="ib", hcas=("a",))
    assert _check(declared, _hca("a", ("DOWN", 400), ("ACTIVE", 200))).rate_gbps == 200


def test_results_come_by_name_and_only_for_what_is_declared():
    declared = [FabricAdapters(name=n, hcas=("a",)) for n in ("roce", "ib")]
    assert [r.name for r in fabrics.check(declared, [])] == ["ib", "roce"]
    assert fabrics.check([], [_hca("a", ("ACTIVE", 1))]) == ()


def _of_kind(name, layer, *, interfaces=(), state="ACTIVE"):
    port = HcaPort(num=1, state=state, phys_state="LinkUp", rate_gbps=200, link_layer=layer)
    return Hca(name=name, ports=(port,), interfaces=interfaces)


@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet", ""])
def test_a_fabric_says_whether_it_is_native_or_roce(layer):
    result = _check(FabricAdapters(name="ib", hcas=("mlx5_0",)), _of_kind("mlx5_0", layer))
    assert result.fabric.link_layer == layer


def test_adapters_of_another_kind_are_none_of_a_fabrics_own():
    declared = FabricAdapters(name="ib", hcas=("mlx5_0", "mlx5_1", "mlx5_2"))
    found = [
        _of_kind("mlx5_0", "InfiniBand"),
        _of_kind("mlx5_1", "Ethernet"),
        _of_kind("mlx5_2", ""),
    ]
    result = _check(declared, *found)
    assert result.usable == ("mlx5_0", "mlx5_2")
    assert result.said == (
        "fabric ib: adapter mlx5_1 is Ethernet and those before it are InfiniBand",
    )


def test_a_roce_port_in_init_does_not_wait_for_a_subnet_manager():
    result = _check(
        FabricAdapters(name="f", hcas=("mlx5_0",)), _of_kind("mlx5_0", "Ethernet", state="INIT")
    )
    assert result.problems == ("adapter mlx5_0 has no active port: port 1 is INIT/LinkUp",)


def test_a_management_address_on_a_fabric_is_warned_of():
    declared = [FabricAdapters(name="roce", hcas=("mlx5_0",))]
    found = [_of_kind("mlx5_0", "Ethernet", interfaces=("ens1f0np0",))]
    (warning,) = fabrics.warnings(declared, found, mgmt_interface="ens1f0np0")
    assert warning.startswith("the management interface ens1f0np0 is adapter mlx5_0 of fabric roce")
    assert fabrics.warnings(declared, found, mgmt_interface="eth0") == ()
    assert fabrics.warnings([], found, mgmt_interface="ens1f0np0") == ()


def test_working_infiniband_that_no_fabric_has_is_warned_of_and_other_adapters_are_not():
    found = [
        _of_kind("mlx5_0", "InfiniBand"),
        _of_kind("mlx5_1", "InfiniBand"),
        _of_kind("mlx5_2", "InfiniBand", state="DOWN"),
        _of_kind("mlx5_3", "Ethernet"),
    ]
    declared = [FabricAdapters(name="ib", hcas=("mlx5_0",))]
    assert fabrics.warnings(declared, found, mgmt_interface="eth0") == (
        "no fabric has the InfiniBand adapters that work: mlx5_1",
    )


def test_the_interfaces_of_an_adapter_are_found(root):
    _adapter(root, "mlx5_0", ports={"1": UP})
    (root / "mlx5_0" / "device" / "net" / "ibp23s0").mkdir(parents=True)
    assert infiniband.read(root)[0].interfaces == ("ibp23s0",)
