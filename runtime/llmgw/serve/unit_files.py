"""The systemd units of this version, as text.

``llmgw server init`` installs one, ``llmgw unit`` prints them for a person; the Ansible roles hold
the same text, which a test compares.
"""

from __future__ import annotations

from importlib import resources

from llmgw.errors import Unknown

NAMES = ("llmgw-agent", "llmgw-gateway", "llmgw-server")


def text(name: str) -> str:
    """The whole unit file; ``Unknown`` for a unit that there is not."""
    if name not in NAMES:
        raise Unknown(f"there is no unit {name!r}, only {', '.join(NAMES)}")
    unit = resources.files("llmgw.serve").joinpath("units", f"{name}.service")
    return unit.read_text(encoding="utf-8")
