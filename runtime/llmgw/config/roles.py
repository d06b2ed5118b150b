"""The roles that have a settings file, and which of them a file is for."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llmgw.config import loading, shape, sources
from llmgw.config.settings import AgentSettings, ServerSettings


class Role(enum.StrEnum):
    """Which program a file is for."""

    SERVER = "server"
    AGENT = "agent"

    @property
    def settings(self) -> type[ServerSettings | AgentSettings]:
        """The settings that its file holds."""
        return ServerSettings if self is Role.SERVER else AgentSettings

    @property
    def load(self) -> Callable[..., ServerSettings | AgentSettings]:
        """What reads its settings; ``loading.load_server`` tells how it is called."""
        return loading.load_server if self is Role.SERVER else loading.load_agent


def guess(path: Path) -> Role | None:
    """The role whose keys the file uses more of, or nothing when both are as likely.

    A file that holds nothing readable is as wrong for one as for the other: any role will say why.
    """
    sections, problems = sources.from_file(path)
    if problems and not sections:
        return Role.SERVER
    counts = {role: _known(sections, role.settings) for role in Role}
    if counts[Role.SERVER] == counts[Role.AGENT]:
        return None
    return max(Role, key=lambda role: counts[role])


def _known(sections: Mapping[str, Any], kind: type[Any]) -> int:
    return len({key.name for key in shape.keys(kind)} & sections.keys())
