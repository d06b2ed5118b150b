"""Finds what a caller names; who is named wrongly is told so in one sentence."""

from __future__ import annotations

from llmgw.api.ports import FleetViews
from llmgw.domain.catalog import unknown_model
from llmgw.domain.views import ModelView


def model(fleet: FleetViews, name: str) -> ModelView:
    """The catalog entry of this name or alias; ``Unknown`` where there is no such."""
    for view in fleet.models():
        if name == view.name or name in view.aliases:
            return view
    raise unknown_model(name)
