"""Reads the settings of a role from file, environment and options; reports all mistakes at once.

Called by the commands that start a role and by ``llmgw config check``.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from llmgw.config import contradictions, legality, servers, shape, sources
from llmgw.config.contradictions import Contradiction
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.reading import Reading
from llmgw.config.settings import AgentSettings, ServerSettings
from llmgw.domain import definitions, names
from llmgw.domain.catalog import Model
from llmgw.errors import Problem, SettingsInvalid

_T = TypeVar("_T", ServerSettings, GatewayHostSettings, AgentSettings)
_Check = Callable[[_T], Iterator[Contradiction]]

NOT_SETTINGS = frozenset({"LLMGW_CTL_URL"})
"""Variables of the environment with our prefix that are no settings of a role."""

ELSEWHERE: Mapping[str, str] = {
    "router.retries": "router.dispatch.max_attempts",
    "router.max_attempts": "router.dispatch.max_attempts",
    "router.timeout": "router.dispatch.response_timeout_s",
    "workers": "gateway.workers",
    "drain_delay_s": "gateway.drain_delay_s",
    "shutdown_grace_s": "gateway.shutdown_grace_s",
    "weights_cache": "weights_dir",
}
"""Keys that people bring along from elsewhere, and where the setting is here."""


def load_server(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> ServerSettings:
    """The settings of a server; ``overrides`` are values by key path and win over all else.

    ``defaults`` are values by key path too, for what neither file nor environment says.
    Raises ``SettingsInvalid`` with every mistake.
    """
    tree, problems = _gathered(path, environ, overrides, defaults, kind=ServerSettings)
    settings = _read(ServerSettings, tree, problems=problems, check=contradictions.server)
    _refuse(path, problems)
    return settings


def load_gateway(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> GatewayHostSettings:
    """The settings of a gateway, made whole: its name, every server with its scheme.

    Raises ``SettingsInvalid`` with every mistake.
    """
    tree, problems = _gathered(path, environ, overrides, defaults, kind=GatewayHostSettings)
    settings = _read(GatewayHostSettings, tree, problems=problems, check=_gateway_contradictions)
    _refuse(path, problems)
    return _gateway_made_whole(settings, hostname=socket.gethostname())


def load_agent(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    needs_server: bool = True,
) -> AgentSettings:
    """The settings of an agent, made whole: its names, every server with its scheme, every folder.

    Raises ``SettingsInvalid`` with every mistake. Without ``needs_server`` none has to be named:
    a node can be looked at before it joins.
    """
    tree, problems = _gathered(path, environ, overrides, defaults, kind=AgentSettings)
    check = _agent_contradictions if needs_server else _unjoined_contradictions
    settings = _read(AgentSettings, tree, problems=problems, check=check)
    _refuse(path, problems)
    return _made_whole(settings, hostname=socket.gethostname())


def _gathered(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None,
    defaults: Mapping[str, object] | None,
    *,
    kind: type[Any],
) -> tuple[dict[str, Any], list[Problem]]:
    tree, problems = ({}, []) if path is None else sources.from_file(path)
    problems += _add_environment(tree, environ, kind=kind)
    for key_path, value in (overrides or {}).items():
        sources.put(tree, path=key_path, value=value)
    for key_path, value in (defaults or {}).items():
        if not sources.says(tree, path=key_path):
            sources.put(tree, path=key_path, value=value)
    return tree, problems


def _add_environment(
    tree: dict[str, Any], environ: Mapping[str, str], *, kind: type[Any]
) -> list[Problem]:
    """Write variables into the tree; one that names a setting of the other role is left alone."""
    ours = list(shape.paths(kind))
    roles = (ServerSettings, GatewayHostSettings, AgentSettings)
    known = {path for role in roles for path in shape.paths(role)}
    problems = []
    for key_path, text in sources.from_environment(environ).items():
        if key_path in ours:
            sources.put(tree, path=key_path, value=text)
        elif key_path not in known and text.variable not in NOT_SETTINGS:
            hint = legality.meant(text.variable, [sources.variable(p) for p in ours])
            message = f"sets nothing; {hint or 'the settings reference has every name'}"
            problems.append(Problem(path=text.variable, message=message))
    return problems


def _read(
    kind: type[_T], tree: Mapping[str, Any], *, problems: list[Problem], check: _Check[_T]
) -> _T:
    reading = Reading(readers={tuple[Model, ...]: _models})
    settings = reading.settings(kind, tree)
    problems += map(_pointed_elsewhere, reading.problems)
    mistaken = [problem.path for problem in problems]
    problems += [
        Problem(path=found.paths[0], message=found.message)
        for found in check(settings)
        if not any(_touches(path, other) for path in found.paths for other in mistaken)
    ]
    return settings


def _refuse(path: Path | None, problems: list[Problem]) -> None:
    if problems:
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise SettingsInvalid(f"{path or 'the settings'}: {count}", problems)


def _models(raw: object, at: str) -> tuple[Model, ...]:
    return definitions.load(raw, path=at)


def _pointed_elsewhere(problem: Problem) -> Problem:
    place = ELSEWHERE.get(problem.path)
    if place is None:
        return problem
    return Problem(path=problem.path, message=f"unknown key; the setting is {place}")


def _touches(path: str, mistaken: str) -> bool:
    """Whether what is wrong there may be the cause; a file that cannot be read may say anything."""
    return mistaken in {"", path} or mistaken.startswith((f"{path}.", f"{path}["))


def _gateway_contradictions(settings: GatewayHostSettings) -> Iterator[Contradiction]:
    yield from servers.contradictions(settings)
    yield from contradictions.gateway(settings)


def _agent_contradictions(settings: AgentSettings) -> Iterator[Contradiction]:
    yield from servers.contradictions(settings)
    yield from contradictions.agent(settings)


def _unjoined_contradictions(settings: AgentSettings) -> Iterator[Contradiction]:
    if settings.server or settings.servers:
        yield from servers.contradictions(settings)
    yield from contradictions.agent(settings)


def _gateway_made_whole(settings: GatewayHostSettings, *, hostname: str) -> GatewayHostSettings:
    if not settings.name and not names.is_gateway_name(hostname):
        message = f"is required, for the hostname {hostname!r} cannot be the name of a gateway"
        raise SettingsInvalid("the settings: 1 mistake", [Problem("name", message)])
    found = servers.listed(settings)
    return dataclasses.replace(
        settings, name=settings.name or hostname, server=found[0], servers=found
    )


def _made_whole(settings: AgentSettings, *, hostname: str) -> AgentSettings:
    if not settings.node_id and not names.may_name_node(hostname):
        message = f"is required, for the hostname {hostname!r} cannot be the name of a node"
        raise SettingsInvalid("the settings: 1 mistake", [Problem("node_id", message)])
    found = servers.listed(settings)
    folders = [*settings.model_dirs, settings.weights_dir]
    return dataclasses.replace(
        settings,
        server=found[0] if found else "",
        servers=found,
        node_id=settings.node_id or hostname,
        hostname=settings.hostname or hostname,
        model_dirs=tuple(dict.fromkeys(folders)),
    )
