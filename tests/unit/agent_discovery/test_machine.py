"""Host, memory, disks, weights and programs, read from folders and texts made for the test."""

import time

import pytest

from llmgw.agent.discovery import engines_probe, host, memory, numa, storage, weights_scan
from llmgw.agent.discovery.engine_programs import EnginePrograms
from llmgw.domain import weights
from llmgw.domain.nodes import Host, LocalWeights, NumaNode


def _tree(root, **texts):
    for path, text in texts.items():
        file = root / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_host_is_read_from_its_files(tmp_path):
    files = {
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\n# x=y\nA=b\n',
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"
        "processor\t: 1\nflags\t\t: fpu avx2 avx fma sse\n\nflags\t\t: avx512f\n",
        "proc/driver/nvidia/version": (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC\n"
            "GCC version: 12.3.0\n"
        ),
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node0/meminfo": "\nNode 0 MemTotal:       65536 kB\n",
        "sys/devices/system/node/node10/distance": "10\n",
        "sys/devices/system/node/has_cpu": "0\n",
    }
    _tree(tmp_path, **files)
    assert host.read(root=tmp_path, machine="x86_64") == Host(
        os_id="ubuntu",
        os_version="22.04",
        os_codename="jammy",
        arch="amd64",
        cpu_flags=("avx", "avx2", "fma"),
        nvidia_driver="550.90.07",
        cpu_model="AMD EPYC 7763 64-Core Processor",
        cpu_threads=2,
        numa_nodes=(NumaNode(0, "0-1", 64), NumaNode(10, "", None)),
    )


def test_a_host_without_files_is_empty_and_not_an_error(tmp_path):
    assert host.read(root=tmp_path, machine="riscv64") == Host(arch="riscv64")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
            "570.86.15",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May", "470.256.02"),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_the_driver_is_the_first_dotted_number_after_its_module(text, version):
    assert host.driver_version(text) == version


@pytest.mark.parametrize(
    ("machine", "arch"),
    [
        ("x86_64", "amd64"),
        ("aarch64", "arm64"),
        ("i386", "i386"),
        ("armv7l", "armhf"),
        ("s390x", "s390x"),
    ],
)
def test_architectures_are_spelled_as_debian_does(machine, arch):
    assert host.architecture(machine) == arch


def test_the_flags_of_an_arm_processor_have_another_key():
    assert host.cpu_flags("Features\t: fp asimd evtstrm sve\n") == ("asimd", "sve")


@pytest.mark.parametrize(
    ("text", "total_mb"),
    [
        ("MemFree: 1 kB\nMemTotal:       32876244 kB\n", 32876244 // 1024),
        ("MemTotal: 512 kB\n", None),
        ("MemTotal:\n", None),
        ("MemTotal: many kB\n", None),
        ("MemAvailable: 100000 kB\n", None),
        ("", None),
    ],
)
def test_memory_that_cannot_be_read_is_unknown(text, total_mb):
    assert memory.parse(text) == total_mb


def test_a_missing_meminfo_is_unknown(tmp_path):
    assert memory.total_mb(tmp_path / "none") is None
    assert (memory.total_mb() or 0) > 0


def test_two_folders_on_one_disk_are_one_entry_named_by_the_first(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (space,) = storage.read([str(one), "", str(two), str(tmp_path / "none")])
    assert space.path == str(one)
    assert 0 <= space.free_bytes <= space.total_bytes > 0
    assert not space.is_shared


@pytest.mark.parametrize("folders", [[], [""], ["/nowhere/at/all"]])
def test_no_folder_is_no_disk_and_never_one_without_space(folders):
    assert storage.read(folders) == ()
    assert weights_scan.scan(folders) == ()


@pytest.mark.parametrize(
    ("magic", "is_shared"),
    [(0x6969, True), (0x0BD00BD0, True), (0xFE534D42, True), (0xEF53, False), (None, False)],
)
def test_only_a_known_network_filesystem_is_shared(tmp_path, magic, is_shared):
    (space,) = storage.read([str(tmp_path)], magic_of=lambda _: magic)
    assert space.is_shared is is_shared


def test_the_kernel_names_the_filesystem_of_proc():
    assert storage.magic("/proc") == 0x9FA0
    assert storage.magic("/nowhere") is None


def test_weight_files_and_folders_that_hold_some_are_found_and_nothing_else(tmp_path):
    files = {
        "tiny.GGUF": "12345",
        "notes.txt": "x",
        "run.sh": "x",
        "half.gguf.part": "123",
        "llama/config.json": "{}",
        "llama/model-00001.safetensors": "1234567",
        "docs/readme.md": "x",
        "set.partial/a.safetensors": "1",
        "deep/er/w.bin": "123",
    }
    _tree(tmp_path, **files)
    assert weights_scan.scan([str(tmp_path), str(tmp_path)]) == (
        LocalWeights(str(tmp_path / "deep"), 3),
        LocalWeights(str(tmp_path / "llama"), 9),
        LocalWeights(str(tmp_path / "tiny.GGUF"), 5),
    )


def test_a_link_counts_with_the_size_of_what_it_leads_to(tmp_path):
    blob = tmp_path / "blobs" / "0a1b"
    _tree(tmp_path, **{"blobs/0a1b": "1234567"})
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "m.gguf").symlink_to(blob)
    (shelf / "gone.gguf").symlink_to(tmp_path / "nothing")
    assert weights_scan.scan([str(shelf)]) == (LocalWeights(str(shelf / "m.gguf"), 7),)


def test_a_download_counts_whatever_its_name_ends_with_and_what_lies_beside_it_does_not(tmp_path):
    name = weights.cache_name("https://host/download?id=7")
    _tree(tmp_path, **{name: "123", f"{name}.lock": "", f"{name}.part.json": "{}", "notes": "x"})
    assert weights_scan.scan([str(tmp_path)]) == (LocalWeights(str(tmp_path / name), 3),)


def test_a_part_is_told_of_once_nobody_has_filled_it_for_a_while(tmp_path):
    file, folder = (weights.cache_name(f"https://host/{name}") for name in ("file", "set/"))
    mine = {f"{file}.part": "123", f"{file}.part.json": "{}", f"{folder}.partial/a/b": "1234"}
    _tree(tmp_path, **mine, **{"mine.part": "1", f"{file}.0a1b2c3d.trash": "1"})
    assert weights_scan.scan([str(tmp_path)]) == ()

    def later():
        return time.time() + weights_scan.STALE_PART_S + 10

    found = weights_scan.scan([str(tmp_path)], now=later)
    assert {one.path.removeprefix(f"{tmp_path}/"): one.size_bytes for one in found} == {
        f"{file}.part": 3,
        f"{folder}.partial": 4,
    }


def test_weights_on_a_network_disk_are_marked(tmp_path):
    _tree(tmp_path, **{"m.gguf": "1"})
    (found,) = weights_scan.scan([str(tmp_path)], is_shared=lambda _: True)
    assert found.is_shared


def test_a_folder_that_cannot_be_listed_is_left_out(tmp_path):
    _tree(tmp_path, **{"file": "x", "good/m.gguf": "1"})
    found = weights_scan.scan([str(tmp_path / "file"), str(tmp_path / "good")])
    assert [one.size_bytes for one in found] == [1]


def test_a_program_is_looked_up_and_never_run(tmp_path):
    trap = tmp_path / "llama-server"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    plain = tmp_path / "no-program"
    plain.write_text("x")
    found = engines_probe.probe(
        {
            "llamacpp": ("llama-server",),
            "sim": (str(trap), "sim-engine"),
            "vllm": ("vllm",),
            "sglang": (str(plain),),
            "none": (),
        },
        search_path=str(tmp_path),
    )
    assert found == {"llamacpp": "unknown", "sim": "unknown"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "n_warnings"),
    [
        pytest.param("x86_64", "processor : 0\nflags : fpu avx avx2\n", 0, id="as it should be"),
        pytest.param("x86_64", "processor : 0\nflags : fpu sse4_2\n", 1, id="a virtual default"),
        pytest.param("aarch64", "processor : 0\nFeatures : fp asimd\n", 0, id="not for ARM"),
        pytest.param("x86_64", "", 0, id="unknown"),
    ],
)
def test_a_processor_without_avx2_is_warned_of(tmp_path, machine, cpuinfo, n_warnings):
    _tree(tmp_path, **{"proc/cpuinfo": cpuinfo})
    warnings = host.warnings(host.read(root=tmp_path, machine=machine))
    assert [("AVX2" in w, "CPU type 'host'" in w) for w in warnings] == [(True, True)] * n_warnings


@pytest.mark.parametrize(
    ("bus_id", "folder"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0001:1b:00.0", "0001:1b:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
    ],
)
def test_a_card_is_near_to_the_numa_node_that_its_folder_names(tmp_path, bus_id, folder):
    _tree(tmp_path, **{f"sys/bus/pci/devices/{folder}/numa_node": "3\n"})
    assert numa.of_device(tmp_path, bus_id) == 3


@pytest.mark.parametrize(("bus_id", "text"), [("1b:00.0", "-1"), ("", "0"), ("1c:00.0", "0")])
def test_a_card_whose_numa_node_nobody_knows_has_none(tmp_path, bus_id, text):
    _tree(tmp_path, **{"sys/bus/pci/devices/0000:1b:00.0/numa_node": text})
    assert numa.of_device(tmp_path, bus_id) is None


def test_programs_are_looked_for_once_a_minute_and_at_once_when_the_words_change(tmp_path, clock):
    programs = EnginePrograms(search_path=str(tmp_path), clock=clock)
    assert programs.versions({"sim": ("engine",)}) == {}
    engine = tmp_path / "engine"
    engine.write_text("")
    engine.chmod(0o755)
    clock.advance(59)
    assert programs.versions({"sim": ("engine",)}) == {}
    assert programs.versions({"sim": (str(engine),)}) == {"sim": "unknown"}
    engine.unlink()
    clock.advance(60)
    assert programs.versions({"sim": (str(engine),)}) == {}
