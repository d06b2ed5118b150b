"""Cards as ``nvidia-smi`` prints them.

Used where the NVIDIA library cannot be asked; it knows no NVLink topology.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess

from llmgw.agent.discovery import gpus
from llmgw.domain.nodes import Gpu
from llmgw.errors import DiscoveryFailed

COLUMNS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "compute_cap",
    "pci.bus_id",
    "driver_version",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "utilization.gpu",
)
"""The last one is left out by old drivers, so a row may be one shorter."""

_MANDATORY = 10
_TIMEOUT_S = 20.0


def find(configured: str, *, search_path: str | None) -> str | None:
    """The program: as configured, else on the search path, else nothing."""
    return configured or shutil.which("nvidia-smi", path=search_path)


def read(program: str) -> tuple[Gpu, ...]:
    """Run it and read its cards; ``DiscoveryFailed`` names the program and what it said."""
    query = f"--query-gpu={','.join(COLUMNS)}"
    try:
        ended = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DiscoveryFailed(f"{program} did not end within {_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise DiscoveryFailed(f"{program} cannot be run: {error.strerror}") from error
    if ended.returncode != 0:
        said = _last_line(ended.stderr) or _last_line(ended.stdout) or "nothing"
        raise DiscoveryFailed(f"{program} ended with {ended.returncode} and said: {said}")
    return parse(ended.stdout)


def parse(text: str) -> tuple[Gpu, ...]:
    """Cards from its CSV; rows that are none are passed over, unknown figures stay absent."""
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise DiscoveryFailed(f"nvidia-smi printed what is no CSV: {error}") from error
    cards = (_card([field.strip() for field in row]) for row in rows)
    return tuple(card for card in cards if card is not None)


def _card(row: list[str]) -> Gpu | None:
    if len(row) < _MANDATORY or not row[0].isdecimal():
        return None
    return gpus.condemned(
        Gpu(
            index=int(row[0]),
            uuid=row[1],
            name=row[2],
            memory_total_mib=_number(row[3]),
            memory_used_mib=_number(row[4]),
            compute_capability=_text(row[5]),
            pci_bus_id=_text(row[6]),
            driver_version=_text(row[7]),
            temperature_c=_number(row[8]),
            ecc_errors=_number(row[9]),
            utilization_percent=_number(row[10]) if len(row) > _MANDATORY else None,
        )
    )


def _text(field: str) -> str:
    return "" if field.startswith("[") else field


def _number(field: str) -> int | None:
    bare = field.removesuffix(" MiB").removesuffix(" W").strip()
    try:
        return int(bare)
    except ValueError:
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
