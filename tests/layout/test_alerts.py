"""Alerts name series that llmgw shows, and each of them is seen to fire."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from llmgw.control.reconciler import fleet_families
from llmgw.gateway import families
from llmgw.kit.metrics import Kind
from tests.layout.test_docs import ROOT

FOLDER = ROOT / "docs" / "operate" / "alerts"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "llmgw.rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
TESTS = yaml.safe_load((FOLDER / "llmgw.tests.yml").read_text())["tests"]
_WORDS = re.compile(r"llmgw_[a-z_]+")


def declared():
    """Every series of every family, and the labels that each may have."""
    for family in (*fleet_families.FAMILIES, *families.FAMILIES):
        ends = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
        for end in ends:
            yield f"{family.name}{end}", {*family.labels, *(["le"] if end == "_bucket" else [])}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_names_only_series_that_are_shown(rule):
    series = set(_WORDS.findall(rule["expr"]))
    assert series <= dict(declared()).keys()
    assert series or rule["alert"] == "ControlPlaneUnreachable"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_says_what_is_wrong_and_what_to_do(rule):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "action"}


def test_every_alert_has_a_test_in_which_it_fires():
    fired = {one["name"].removesuffix(" fires") for one in TESTS}
    assert {rule["alert"] for rule in RULES} <= fired


def test_tests_of_alerts_use_series_with_the_labels_that_are_shown():
    shown = dict(declared())
    written = [one["series"] for test in TESTS for one in test["input_series"]]
    for series in written:
        name, _, labels = series.partition("{")
        if name in shown:
            told = set(re.findall(r"(\w+)=", labels)) - {"instance"}
            assert told <= shown[name], series


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool on PATH (Debian: package prometheus)"
)
def test_every_alert_fires_and_none_while_all_is_well():
    done = subprocess.run(
        ["promtool", "test", "rules", "llmgw.tests.yml"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
