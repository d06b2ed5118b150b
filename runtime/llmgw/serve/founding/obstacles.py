"""What would keep a founding from its end, all of it, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.config.settings import ServerSettings
from llmgw.kit import addresses
from llmgw.serve.founding.ground import Ground


def find(ground: Ground) -> Iterator[str]:
    """One sentence for each, with what to do."""
    if not ground.is_trial and not ground.machine.is_root():
        yield "this is not root: run it with sudo"
    if not ground.machine.has_systemd():
        yield "systemd does not run here: start 'llmgw server' in another way"
    elif not ground.is_running():
        yield from _taken_ports(ground)
    if ground.needs_store and ground.places.settings.exists() and not ground.settings().auth.store:
        yield (
            f"an administrator is kept in the store, and {ground.places.settings} names none: "
            f"write 'auth: {{store: {ground.places.store}}}' into it"
        )
    if not ground.places.program.exists() and ground.machine.hides(ground.program):
        yield (
            f"{ground.program} lies where a service cannot see it: install llmgw elsewhere, as in "
            "python3 -m venv /opt/llmgw/venv"
        )


def _taken_ports(ground: Ground) -> Iterator[str]:
    settings = ground.settings() if ground.places.settings.exists() else ServerSettings()
    for key in ("listen", "admin_listen", "agent_listen"):
        address = addresses.parse(getattr(settings, key))
        if not ground.machine.is_free(address):
            yield f"{key}: something else listens on {address}; end that, or set another address"
