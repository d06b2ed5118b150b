"""The settings of ``llmgw up``: everything under one data folder, on loopback, nothing to write."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.config import loading
from llmgw.config.settings import AgentSettings, ServerSettings
from llmgw.domain import names
from llmgw.errors import Invalid
from llmgw.serve import cpu_share, local_models

LISTEN = "127.0.0.1:8080"
ADMIN_LISTEN = "127.0.0.1:9090"
_ANY_PORT = "127.0.0.1:0"
_PARALLEL = 2


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person asked for; absent is: as the settings or the defaults say."""

    data: Path
    config: Path | None = None
    model: str | None = None
    name: str | None = None
    listen: str | None = None
    admin_listen: str | None = None
    is_once: bool = False
    """Only one question is asked from inside, so any free port will do."""


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Both halves of the one process."""

    server: ServerSettings
    agent: AgentSettings
    data: Path


def load(wishes: Wishes, *, environ: Mapping[str, str]) -> UpSettings:
    """Settings from defaults, file, environment and options, each winning over those before.

    Raises ``SettingsInvalid`` with every mistake, ``Invalid`` when there is no model, and no store
    that may have one, or when one question would be asked without the key that it needs.
    """
    server = loading.load_server(
        wishes.config,
        environ=environ,
        overrides=_server_overrides(wishes),
        defaults=_server_defaults(wishes),
    )
    if wishes.is_once and server.auth.enabled:
        raise _no_key()
    has_store = _store_file(wishes).exists()
    if not has_store and not any(model.profiles for model in server.models):
        raise no_model(wishes.data)
    agent = loading.load_agent(
        None, environ=environ, overrides=_AGENT_OVERRIDES, defaults=_agent_defaults(wishes)
    )
    return UpSettings(server=server, agent=agent, data=wishes.data)


_AGENT_OVERRIDES: Mapping[str, object] = {"server": "http://127.0.0.1:1", "tls": None}
"""The real port is known only once it is open; ``allinone`` puts it in."""


def _server_overrides(wishes: Wishes) -> Mapping[str, object]:
    wished = {
        "listen": wishes.listen,
        "admin_listen": wishes.admin_listen,
        "models": _named_model(wishes),
    }
    given = {key: value for key, value in wished.items() if value is not None}
    # Its own agent comes in plaintext over loopback; others join an `llmgw server`.
    own = {"agent_listen": _ANY_PORT, "agent_tls": None, "control.enabled": True}
    # A store that is shared would need an election, and its data folder is nobody else's.
    return {**given, **own, "auth.store": str(_store_file(wishes))}


def _server_defaults(wishes: Wishes) -> Mapping[str, object]:
    folder = wishes.data.absolute()
    threads = cpu_share.engine_threads()
    return {
        "listen": _ANY_PORT if wishes.is_once else LISTEN,
        "admin_listen": _ANY_PORT if wishes.is_once else ADMIN_LISTEN,
        "state_dir": str(folder / "state"),
        "run_dir": str(folder / "run"),
        "models": list(local_models.found(folder / "models", threads=threads)),
        "log.level": "warning",
        "gateway.drain_delay_s": 0,
        "gateway.shutdown_grace_s": 5,
        "control.base_backoff": 1,
    }


def _agent_defaults(wishes: Wishes) -> Mapping[str, object]:
    folder = wishes.data.absolute()
    hostname = socket.gethostname()
    return {
        "node_id": hostname if names.may_name_node(hostname) else "local",
        "mgmt_addr": "127.0.0.1",
        "weights_dir": str(folder / "weights"),
        "supervisor.work_dir": str(folder / "agent"),
        "engines.llamacpp.parallel": _PARALLEL,
    }


def _named_model(wishes: Wishes) -> Sequence[local_models.Definition] | None:
    if wishes.model is None:
        if wishes.name is not None:
            raise Invalid("--name names the model of --model: give both")
        return None
    threads = cpu_share.engine_threads()
    return [local_models.named(wishes.model, name=wishes.name, threads=threads)]


def _store_file(wishes: Wishes) -> Path:
    return wishes.data.absolute() / "state" / "store.db"


def _no_key() -> Invalid:
    return Invalid(
        "--once asks without a key, and auth.enabled has every request bring one: start without "
        "--once, which tells how to make a key and ask with it, or give LLMGW_AUTH__ENABLED=false "
        "for this one question"
    )


def no_model(data: Path) -> Invalid:
    """Neither settings nor store have a model that could run here."""
    return Invalid(
        "there is no model to serve; one of these gives one:\n"
        "  llmgw up --model /path/to/model.gguf\n"
        "  llmgw up --model https://example.com/model.gguf\n"
        f"  put a GGUF file into {data / 'models'}\n"
        "  llmgw up --config server.yaml, with models that have profiles"
    )
