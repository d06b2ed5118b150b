"""Translates what a machine is made of: processor, cards, adapters.

Called by ``wire_nodes``; what is absent in a value stays absent in the message.
"""

from __future__ import annotations

from llmgw.domain.nodes import Fabric, Gpu, GpuGauges, Host, NumaNode
from llmgw.rpc import texts
from llmgw.rpc.v1 import agent_pb2 as pb


def pack_gpu(gpu: Gpu) -> pb.GPU:
    """One card."""
    return pb.GPU(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_total_mb=gpu.memory_total_mib,
        memory_used_mb=gpu.memory_used_mib,
        compute_capability=gpu.compute_capability,
        numa_node=gpu.numa_node,
        pci_bus_id=gpu.pci_bus_id,
        driver_version=gpu.driver_version,
        cuda_version=gpu.cuda_version,
        nvlink_peers=gpu.nvlink_peers or (),
        nvlink_known=gpu.nvlink_peers is not None,
        problems=map(texts.repaired, gpu.problems),
        temperature_c=gpu.temperature_c,
        ecc_errors=gpu.ecc_errors,
        utilization_percent=gpu.utilization_percent,
        power_watts=gpu.power_watts,
        power_limit_watts=gpu.power_limit_watts,
        mig_instances=map(texts.repaired, gpu.mig_instances),
    )


def unpack_gpu(gpu: pb.GPU) -> Gpu:
    """One card; an agent that does not say whether it looked for links may still name some."""
    knows_links = gpu.nvlink_known or gpu.nvlink_peers
    return Gpu(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_total_mib=gpu.memory_total_mb if gpu.HasField("memory_total_mb") else None,
        memory_used_mib=gpu.memory_used_mb if gpu.HasField("memory_used_mb") else None,
        utilization_percent=(
            gpu.utilization_percent if gpu.HasField("utilization_percent") else None
        ),
        compute_capability=gpu.compute_capability,
        numa_node=gpu.numa_node if gpu.HasField("numa_node") else None,
        pci_bus_id=gpu.pci_bus_id,
        driver_version=gpu.driver_version,
        cuda_version=gpu.cuda_version,
        nvlink_peers=tuple(gpu.nvlink_peers) if knows_links else None,
        ecc_errors=gpu.ecc_errors if gpu.HasField("ecc_errors") else None,
        temperature_c=gpu.temperature_c if gpu.HasField("temperature_c") else None,
        power_watts=gpu.power_watts if gpu.HasField("power_watts") else None,
        power_limit_watts=gpu.power_limit_watts if gpu.HasField("power_limit_watts") else None,
        mig_instances=tuple(gpu.mig_instances),
        problems=tuple(gpu.problems),
    )


def pack_gauges(gauges: GpuGauges) -> pb.GpuGauges:
    """What moves on a card."""
    return pb.GpuGauges(
        utilization_percent=gauges.utilization_percent,
        temperature_c=gauges.temperature_c,
        power_watts=gauges.power_watts,
    )


def unpack_gauges(gauges: pb.GpuGauges) -> GpuGauges:
    """What moves on a card."""
    return GpuGauges(
        utilization_percent=(
            gauges.utilization_percent if gauges.HasField("utilization_percent") else None
        ),
        temperature_c=gauges.temperature_c if gauges.HasField("temperature_c") else None,
        power_watts=gauges.power_watts if gauges.HasField("power_watts") else None,
    )


def pack_fabric(fabric: Fabric) -> pb.FabricAttachment:
    """The usable adapters on one fabric."""
    return pb.FabricAttachment(
        fabric=fabric.name,
        hcas=fabric.hcas,
        rate_gbps=fabric.rate_gbps,
        link_layer=fabric.link_layer,
    )


def unpack_fabric(fabric: pb.FabricAttachment) -> Fabric:
    """The usable adapters on one fabric."""
    return Fabric(
        name=fabric.fabric,
        hcas=tuple(fabric.hcas),
        rate_gbps=fabric.rate_gbps if fabric.HasField("rate_gbps") else None,
        link_layer=fabric.link_layer,
    )


def pack_host(host: Host) -> pb.Host:
    """Operating system and processor."""
    return pb.Host(
        os_id=host.os_id,
        os_version=host.os_version,
        os_codename=host.os_codename,
        arch=host.arch,
        cpu_flags=host.cpu_flags,
        nvidia_driver=host.nvidia_driver,
        cpu_model=texts.repaired(host.cpu_model),
        cpu_threads=host.cpu_threads,
        numa_nodes=map(_pack_numa, host.numa_nodes),
    )


def unpack_host(host: pb.Host) -> Host:
    """Operating system and processor."""
    return Host(
        os_id=host.os_id,
        os_version=host.os_version,
        os_codename=host.os_codename,
        arch=host.arch,
        cpu_flags=tuple(host.cpu_flags),
        nvidia_driver=host.nvidia_driver,
        cpu_model=host.cpu_model,
        cpu_threads=host.cpu_threads if host.HasField("cpu_threads") else None,
        numa_nodes=tuple(map(_unpack_numa, host.numa_nodes)),
    )


def _pack_numa(node: NumaNode) -> pb.NumaNode:
    return pb.NumaNode(number=node.number, cpus=node.cpus, memory_total_mb=node.memory_total_mb)


def _unpack_numa(node: pb.NumaNode) -> NumaNode:
    return NumaNode(
        number=node.number,
        cpus=node.cpus,
        memory_total_mb=node.memory_total_mb if node.HasField("memory_total_mb") else None,
    )
