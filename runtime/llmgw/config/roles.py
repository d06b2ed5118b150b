"""The roles that have a settings file, and which of them a file is for."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from llmgw.config import loading, shape, sources
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import AgentSettings, ServerSettings

Settings: TypeAlias = ServerSettings | GatewayHostSettings | AgentSettings


class Role(enum.StrEnum):
    """Which program a file is for."""

    SERVER = "server"
    AGENT = "agent"
    GATEWAY = "gateway"

    @property
    def settings(self) -> type[Settings]:
        """The settings that its file holds."""
        return _SETTINGS[self]

    @property
    def load(self) -> Callable[..., Settings]:
        """What reads its settings; ``loading.load_server`` tells how it is called."""
        return _LOADERS[self]


_SETTINGS: Mapping[Role, type[Settings]] = {
    Role.SERVER: ServerSettings,
    Role.AGENT: AgentSettings,
    Role.GATEWAY: GatewayHostSettings,
}
_LOADERS: Mapping[Role, Callable[..., Settings]] = {
    Role.SERVER: loading.load_server,
    Role.AGENT: loading.load_agent,
    Role.GATEWAY: loading.load_gateway,
}


def guess(path: Path) -> Role | None:
    """The role whose keys the file uses more of, or nothing when server and agent are as likely.

    A gateway takes most keys of a server and some of an agent: a file is one's only when it uses
    more of its keys than of either's.
    A file that holds nothing readable is as wrong for one as for the other: any role will say why.
    """
    sections, problems = sources.from_file(path)
    if problems and not sections:
        return Role.SERVER
    counts = {role: _known(sections, role.settings) for role in Role}
    server, agent = counts[Role.SERVER], counts[Role.AGENT]
    if counts[Role.GATEWAY] > max(server, agent):
        return Role.GATEWAY
    if server == agent:
        return None
    return Role.SERVER if server > agent else Role.AGENT


def _known(sections: Mapping[str, Any], kind: type[Any]) -> int:
    return len({key.name for key in shape.keys(kind)} & sections.keys())
