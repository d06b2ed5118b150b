"""Cards as ``nvidia-smi`` prints them.

Used where the NVIDIA library cannot be asked; it knows no NVLink topology.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Mapping, Sequence

from llmgw.agent.discovery import gpus
from llmgw.domain.nodes import Gpu
from llmgw.errors import DiscoveryFailed
from llmgw.kit import quick_runs
from llmgw.kit.quick_runs import Answer

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
    "mig.mode.current",
    "power.draw",
    "power.limit",
)
"""The last ones are left out by old drivers, so a row may be shorter."""

_MANDATORY = 10
_TIMEOUT_S = 20.0
_MOST_BYTES = 4 * 1024 * 1024
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')
_NEVER_REFUSED = frozenset({"index", "uuid", "name"})


def find(configured: str, *, search_path: str | None) -> str | None:
    """The program: as configured, else on the search path, else nothing."""
    return configured or shutil.which("nvidia-smi", path=search_path)


def read(program: str) -> tuple[Gpu, ...]:
    """Run it and read its cards; ``DiscoveryFailed`` names the program and what it said.

    A column that its version does not know fails the whole query, so it is asked without it again.
    """
    columns = list(COLUMNS)
    while True:
        ended = _ask(program, columns)
        refused = _REFUSED.search(ended.output + ended.errors) if ended.code else None
        if refused is None or refused[1] not in set(columns) - _NEVER_REFUSED:
            break
        columns.remove(refused[1])
    if ended.code != 0:
        said = _last_line(ended.errors) or _last_line(ended.output) or "nothing"
        raise DiscoveryFailed(f"{program} ended with {ended.code} and said: {said}")
    return parse(ended.output, columns=columns)


def parse(text: str, *, columns: Sequence[str] = COLUMNS) -> tuple[Gpu, ...]:
    """Cards from its CSV; rows that are none are passed over, unknown figures stay absent."""
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise DiscoveryFailed(f"nvidia-smi printed what is no CSV: {error}") from error
    mandatory = len([column for column in columns if column in COLUMNS[:_MANDATORY]])
    whole = (row for row in rows if len(row) >= mandatory and row[0].strip().isdecimal())
    return tuple(
        _card({c: field.strip() for c, field in zip(columns, row, strict=False)}) for row in whole
    )


def _ask(program: str, columns: Sequence[str]) -> Answer:
    query = f"--query-gpu={','.join(columns)}"
    words = [program, query, "--format=csv,noheader,nounits"]
    try:
        ended = quick_runs.run(words, timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    except TimeoutError as error:
        raise DiscoveryFailed(f"{program} did not end within {_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise DiscoveryFailed(f"{program} cannot be run: {error.strerror}") from error
    if ended.code is None:
        raise DiscoveryFailed(
            f"{program} printed more than {_MOST_BYTES >> 20} MiB: no list of cards"
        )
    return ended


def _card(fields: Mapping[str, str]) -> Gpu:
    is_cut = fields.get("mig.mode.current") == "Enabled"
    return gpus.condemned(
        Gpu(
            index=int(fields["index"]),
            uuid=fields["uuid"],
            name=fields["name"],
            memory_total_mib=_number(fields.get("memory.total")),
            memory_used_mib=_number(fields.get("memory.used")),
            compute_capability=_text(fields.get("compute_cap")),
            pci_bus_id=_text(fields.get("pci.bus_id")),
            driver_version=_text(fields.get("driver_version")),
            temperature_c=_number(fields.get("temperature.gpu")),
            ecc_errors=_number(fields.get("ecc.errors.uncorrected.volatile.total")),
            utilization_percent=_number(fields.get("utilization.gpu")),
            power_watts=_number(fields.get("power.draw")),
            power_limit_watts=_number(fields.get("power.limit")),
        ),
        *((gpus.CUT_SOMEHOW,) if is_cut else ()),
    )


def _text(field: str | None) -> str:
    return "" if field is None or field.startswith("[") else field


def _number(field: str | None) -> int | None:
    bare = (field or "").removesuffix(" MiB").removesuffix(" W").strip()
    try:
        return round(float(bare))
    except (ValueError, OverflowError):
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
