"""``llmgw agent inventory``: what the agent finds on this machine, before it joins or after."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.agent import stocktaking
from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.findings import Hardware
from llmgw.agent.discovery.infiniband import Hca
from llmgw.agent.stocktaking import Inventory
from llmgw.cli import figures, screens, settings_files
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row, Screen
from llmgw.config import loading, sources
from llmgw.domain.nodes import Gpu, Host, InstallState, LocalWeights, Storage

_MEBIBYTE = 1024 * 1024
_SEVERAL = 2

_GPUS = (
    Column("GPU"),
    Column("CLASS", is_whole=True),
    Column("NAME"),
    Column("MEMORY", is_whole=True),
    Column("LOAD"),
    Column("TEMP"),
    Column("POWER"),
    Column("CAPABILITY"),
    Column("NUMA"),
    Column("NVLINK"),
    Column("HEALTH", is_whole=True),
)
_HCAS = (
    Column("ADAPTER", is_whole=True),
    Column("PORT"),
    Column("STATE", is_whole=True),
    Column("RATE"),
    Column("KIND"),
    Column("NUMA"),
    Column("INTERFACE"),
)
_FABRICS = (Column("FABRIC"), Column("USABLE"), Column("RATE"), Column("KIND"))
_NUMA = (Column("NUMA NODE"), Column("PROCESSORS"), Column("MEMORY"))
_STORAGE = (Column("DISK", is_whole=True), Column("FREE", is_whole=True), Column("SHARED"))
_WEIGHTS = (Column("WEIGHTS", is_whole=True), Column("SIZE", is_whole=True), Column("SHARED"))


@click.command()
@settings_files.option(settings_files.AGENT, whose="The agent's")
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def inventory(ctx: click.Context, *, config: Path | None, is_json: bool) -> None:
    """Show what this machine has: cards, adapters, memory, disks, models, engines.

    Needs no control plane. The exit code is 1 when a part could not be read; the rest is shown.

    \b
    llmgw agent inventory
    llmgw agent inventory --json
    """  # noqa: D301 - click reads \b
    environ = sources.environment()
    file = settings_files.chosen(config, usual=settings_files.AGENT)
    settings = loading.load_agent(file, environ=environ, needs_server=False)
    found = stocktaking.take(settings, environ=environ)
    screen = screens.standard()
    if is_json:
        screen.document(stocktaking.document(found))
    else:
        _show(screen, found)
    if found.failures:
        ctx.exit(ExitCode.FAILED)


def _show(screen: Screen, found: Inventory) -> None:
    screen.facts(_facts(found))
    hardware = found.hardware
    tables = (
        (_NUMA, _numa(hardware.around.host)),
        (_GPUS, [_gpu(gpu, found) for gpu in hardware.cards.gpus]),
        (_HCAS, [row for hca in hardware.around.hcas for row in _ports(hca)]),
        (_FABRICS, [_fabric(check) for check in hardware.around.fabrics]),
        (_STORAGE, [_disk(space) for space in found.files.storage]),
        (_WEIGHTS, [_weights(weights) for weights in found.files.weights]),
    )
    for columns, rows in tables:
        if rows:
            screen.line()
            screen.table(columns, rows)
    for install in found.engines.installs:
        if install.state is not InstallState.READY or install.warning:
            screen.line()
            said = install.warning or f"is {install.state}: {install.detail}"
            screen.line(f"engine {install.engine} {install.version} {said}", style="yellow")
    for warning in found.warnings:
        screen.line()
        screen.line(warning, style="yellow")
    for failure in found.failures:
        screen.line()
        screen.line(f"could not be read: {failure}", style="red")


def _facts(found: Inventory) -> list[tuple[str, str | None]]:
    hardware, host = found.hardware, found.hardware.around.host
    interface = f" ({found.mgmt_interface})" if found.mgmt_interface else ""
    return [
        ("node", found.node_id),
        ("address", found.mgmt_addr and f"{found.mgmt_addr}{interface}"),
        ("system", " ".join(filter(None, (host.os_id, host.os_version, host.arch))) or None),
        ("processor", _processor(host)),
        ("processor flags", figures.listed(host.cpu_flags)),
        ("memory", _mebibytes(hardware.memory_total_mb)),
        ("driver", _driver(hardware)),
        ("gpus", f"{len(hardware.cards.gpus)} (source: {hardware.cards.source})"),
        ("engines", figures.listed([f"{e} {v}" for e, v in found.engines.versions.items()])),
    ]


def _processor(host: Host) -> str | None:
    threads = None if host.cpu_threads is None else f"{host.cpu_threads} threads"
    return ", ".join(filter(None, (host.cpu_model, threads))) or None


def _driver(hardware: Hardware) -> str | None:
    cuda = next((gpu.cuda_version for gpu in hardware.cards.gpus if gpu.cuda_version), "")
    driver = hardware.around.host.nvidia_driver
    return f"{driver} (CUDA {cuda})" if driver and cuda else driver or None


def _numa(host: Host) -> list[Row]:
    """Only where there is more than one: nothing is far from anything else otherwise."""
    if len(host.numa_nodes) < _SEVERAL:
        return []
    return [
        Row(cells=(str(node.number), node.cpus or None, _mebibytes(node.memory_total_mb)))
        for node in host.numa_nodes
    ]


def _gpu(gpu: Gpu, found: Inventory) -> Row:
    problems = found.problems(gpu)
    total, used = gpu.memory_total_mib, gpu.memory_used_mib
    return Row(
        cells=(
            str(gpu.index),
            gpu.gpu_class,
            gpu.name or None,
            figures.part_of(
                None if used is None else used * _MEBIBYTE,
                None if total is None else total * _MEBIBYTE,
            ),
            _with_unit(gpu.utilization_percent, " %"),
            _with_unit(gpu.temperature_c, " C"),
            _power(gpu),
            gpu.compute_capability or None,
            _with_unit(gpu.numa_node, ""),
            _links(gpu),
            _health(gpu, found, problems),
        ),
        under=problems,
    )


def _power(gpu: Gpu) -> str | None:
    limit = "" if gpu.power_limit_watts is None else f" of {gpu.power_limit_watts}"
    return None if gpu.power_watts is None else f"{gpu.power_watts}{limit} W"


def _links(gpu: Gpu) -> str | None:
    peers = gpu.nvlink_peers
    return None if peers is None else figures.listed([str(peer) for peer in peers])


def _health(gpu: Gpu, found: Inventory, problems: tuple[str, ...]) -> str:
    if problems:
        return "out of use"
    return "in use by us" if gpu.index in found.held else "ok"


def _ports(hca: Hca) -> list[Row]:
    return [
        Row(
            cells=(
                hca.name,
                str(port.num),
                f"{port.state or '-'}/{port.phys_state or '-'}",
                _with_unit(port.rate_gbps, " Gb/s"),
                _kind(port.link_layer),
                _with_unit(hca.numa_node, ""),
                figures.listed(hca.interfaces),
            )
        )
        for port in hca.ports
    ]


def _kind(link_layer: str) -> str | None:
    return "RoCE" if link_layer == "Ethernet" else link_layer or None


def _fabric(check: FabricCheck) -> Row:
    return Row(
        cells=(
            check.name,
            figures.listed(check.usable),
            _with_unit(check.rate_gbps, " Gb/s"),
            _kind(check.link_layer),
        ),
        under=check.problems,
    )


def _disk(space: Storage) -> Row:
    free = figures.part_of(space.free_bytes, space.total_bytes)
    return Row(cells=(space.path, free, _yes_or_no(is_shared=space.is_shared)))


def _weights(weights: LocalWeights) -> Row:
    shared = _yes_or_no(is_shared=weights.is_shared)
    return Row(cells=(weights.path, figures.size(weights.size_bytes), shared))


def _mebibytes(figure: int | None) -> str | None:
    return figures.size(None if figure is None else figure * _MEBIBYTE)


def _with_unit(figure: int | None, unit: str) -> str | None:
    return None if figure is None else f"{figure}{unit}"


def _yes_or_no(*, is_shared: bool) -> str:
    return "yes" if is_shared else "no"
