"""Machines of ``tests/data/nodes`` as the agent meets them: files, a library, a program.

Everything above these three is the real code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pydantic

from llmgw.agent.discovery import nvml
from llmgw.agent.discovery.findings import Machine
from llmgw.agent.discovery.nvml import Listing
from llmgw.agent.discovery.scan import Scanner
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import NodeFacts
from tests.fakes.nvml import MIB, Card, FakeNvml

FOLDER = Path(__file__).parents[1] / "data" / "nodes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

_NVIDIA_SMI = '''#!{python} -IS
"""Prints the columns that are asked for, as the real program does."""
import json, sys

answer = json.loads({answer!r})
if "csv" not in answer:
    sys.stdout.write(answer["stderr"])
    sys.exit(answer["exit"])
known, *rows = ([field.strip() for field in line.split(",")] for line in answer["csv"])
asked = sys.argv[1].removeprefix("--query-gpu=").split(",")
assert sys.argv[2] == "--format=csv,noheader,nounits"
for column in asked:
    if column not in known:
        print(f'Field "{{column}}" is not a valid field to query.')
        sys.exit(2)
for row in rows:
    print(", ".join(row[known.index(column)] for column in asked))
'''


@dataclass(frozen=True)
class DescribedMachine:
    """One file of the library, and what of it is on disk."""

    document: dict
    root: Path

    @property
    def nvidia_smi(self) -> Path:
        """Where the program is, if the machine has it."""
        return self.root / "usr" / "bin" / "nvidia-smi"

    @property
    def expected(self) -> NodeFacts:
        """The golden registration; only what belongs to the machine is in it."""
        facts = {"node_id": "", **self._filled(self.document["facts"])}
        return pydantic.TypeAdapter(NodeFacts).validate_python(facts)

    @property
    def found(self) -> dict:
        """The golden of what a person sees besides."""
        return self._filled(self.document["found"])

    @property
    def settings(self) -> AgentSettings:
        """The agent's settings on this machine."""
        given = self.document.get("settings", {})
        return pydantic.TypeAdapter(AgentSettings).validate_python(given)

    def scanner(self) -> Scanner:
        """The real scanner of this machine."""
        return Scanner(
            settings=self.settings,
            programs=dict,
            search_path=str(self.nvidia_smi.parent),
            read_nvml=self._read_nvml(),
            machine=Machine(root=self.root, architecture=self.document["machine"]),
        )

    def _read_nvml(self) -> Callable[[], Listing]:
        described = self.document["nvml"] or {"error": "nobody should ask"}
        if "error" in described:
            library = FakeNvml(is_loaded=False, error=described["error"])
        else:
            cards = [_card(card) for card in described["cards"]]
            library = FakeNvml(*cards, driver=described["driver"], cuda=described["cuda"])
        return lambda: nvml.read(library)

    def _filled(self, golden: dict) -> dict:
        return json.loads(json.dumps(golden).replace("{nvidia_smi}", str(self.nvidia_smi)))


def build(name: str, root: Path) -> DescribedMachine:
    """Put a machine's files below ``root``."""
    made = DescribedMachine(json.loads((FOLDER / f"{name}.json").read_text()), root)
    document = made.document
    for path, text in document["files"].items():
        _write(root / path, text)
    if "lscpu" in document:
        _write(root / "proc/cpuinfo", _cpuinfo(document["lscpu"]))
    for adapter, described in document.get("adapters", {}).items():
        _write_adapter(root, adapter, described)
    if "kernel_log" in document:
        records = [
            f"4,{number},{number}000,-;{message.replace(chr(10), chr(92) + 'x0a')}"
            for number, message in enumerate(document["kernel_log"])
        ]
        _write(root / "dev/kmsg", records)
    if document.get("nvidia_smi"):
        answer = json.dumps(document["nvidia_smi"])
        _write(made.nvidia_smi, _NVIDIA_SMI.format(python=sys.executable, answer=answer))
        made.nvidia_smi.chmod(0o755)
    return made


def _card(described: dict) -> Card:
    """What a description leaves out, the library does not answer."""
    return Card(
        name=described.get("name"),
        uuid=described.get("uuid"),
        bus_id=described.get("bus_id"),
        memory=_bytes(described.get("memory_mib")),
        reserved=described.get("reserved_mib", 0) * MIB,
        knows_second_form=described.get("knows_second_form", True),
        capability=described.get("capability"),
        utilization=described.get("utilization"),
        temperature=described.get("temperature"),
        ecc=described.get("ecc"),
        power_mw=described.get("power_mw"),
        power_limit_mw=described.get("power_limit_mw"),
        persistence=described.get("persistence"),
        links=dict(enumerate(described.get("links", ()))),
        switches=frozenset(described.get("switches", ())),
        clique=described.get("clique"),
        mig=described.get("mig"),
        instances=tuple(described.get("instances", ())),
        remapped=described.get("remapped"),
        recovery=described.get("recovery"),
        lost=described.get("lost", ""),
    )


def _bytes(mebibytes: list[int] | None) -> list[int] | None:
    return None if mebibytes is None else [number * MIB for number in mebibytes]


def _cpuinfo(lscpu: dict) -> list[str]:
    """The kernel's text: a block a processor, of which only the lines that matter are here."""
    block = [f"model name\t: {lscpu['Model name']}", f"flags\t\t: {lscpu['Flags']}", ""]
    return [
        line for number in range(lscpu["CPU(s)"]) for line in (f"processor\t: {number}", *block)
    ]


def _write_adapter(root: Path, name: str, described: dict) -> None:
    device = root / "sys/devices" / described["pci"]
    folder = root / "sys/class/infiniband" / name
    _write(device / "numa_node", str(described["numa_node"]))
    for interface in described["net"]:
        (device / "net" / interface).mkdir(parents=True)
    _write(folder / "fw_ver", described["fw_ver"])
    (folder / "device").symlink_to(device)
    for number, files in described["ports"].items():
        for file, text in files.items():
            _write(folder / "ports" / number / file, text)


def _write(path: Path, text: str | list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else "\n".join(text) + "\n")
