"""What is shown of downloads on nodes, and what nodes made of orders about them.

One flat frozen value a thing, as in ``views``.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.domain.fetch_status import FetchStatus


@dataclass(frozen=True, slots=True)
class OrphanView:
    """A download on a node that no model of the catalog names."""

    node_id: str
    path: str
    size_bytes: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class FetchView:
    """A download on a node that is under way or has failed, and the models whose weights it is."""

    node_id: str
    models: tuple[str, ...]
    fetch: FetchStatus


@dataclass(frozen=True, slots=True)
class FetchOrderView:
    """What a node made of the wish to have weights, or no longer; ``detail`` says more."""

    node_id: str
    is_done: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RemovalView:
    """What a node made of one removal; ``detail`` is why it stays, or what else there is to say."""

    node_id: str
    path: str
    is_removed: bool
    detail: str = ""
