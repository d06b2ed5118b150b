"""Which cards may stand in for each other."""

from __future__ import annotations

import pytest

from llmgw.domain.nodes import Gpu


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80g"),
        ("NVIDIA H100-SXM5-80GB", 81559, "h100-80g"),
        ("Tesla A100-SXM4-40GB", 40960, "a100-40g"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80g"),
        ("NVIDIA L40S", 46068, "l40s-45g"),
        ("NVIDIA GeForce RTX 4090", 24564, "4090-24g"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", 8188, "4070-8g"),
        ("NVIDIA H200", 143771, "h200-140g"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "6000-48g"),
        ("Tesla V100-SXM2-16GB", 16384, "v100-16g"),
        ("NVIDIA TITAN V", 12066, "titan-v-12g"),
        ("NVIDIA B200", 183359, "b200-179g"),
        ("NVIDIA L4", 23034, "l4-22g"),
    ],
)
def test_class_is_model_and_memory_however_the_driver_spells_the_name(name, mib, expected):
    assert Gpu(index=0, uuid="u", name=name, memory_total_mib=mib).gpu_class == expected


def test_half_a_gibibyte_is_rounded_up():
    assert Gpu(index=0, uuid="u", name="NVIDIA L4", memory_total_mib=22 * 1024 + 512).gpu_class == (
        "l4-23g"
    )


def test_memory_that_is_not_told_is_no_part_of_the_class():
    assert Gpu(index=0, uuid="u", name="NVIDIA GB10").gpu_class == "gb10"


def test_card_that_is_lost_has_a_class_that_no_profile_asks_for():
    assert Gpu(index=0, uuid="", name="").gpu_class == "unknown"
