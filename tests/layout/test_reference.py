"""Pages of reference say what the code does."""

from __future__ import annotations

from pathlib import Path

from llmgw.config import reference
from llmgw.control.reconciler import fleet_families
from llmgw.gateway import families

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_settings_is_made_from_the_settings():
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert page == reference.render(), "run `make docs`"


def test_the_page_of_metrics_is_made_from_their_list():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert page == f"{families.page()}\n{fleet_families.page()}", "run `make docs`"
