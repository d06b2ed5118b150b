"""Packages of the operating system: which are missing, and how they are installed by its own tool.

Only missing ones are installed and none is upgraded. A package tool that somebody else is using is
waited for: new machines run their own updates first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmgw.agent.install.tools import Finished, Tools
from llmgw.errors import DeadlinePassed, EngineFailed

Say = Callable[[str], None]

WAIT_S = 600.0
POLL_S = 10.0

LOCKED = (
    "Unable to lock",
    "Could not get lock",
    "is locked by another process",
    "waiting for process with pid",
    "System management is locked",
)
"""What apt, dnf, yum and zypper say when another command has their database."""

_ASK_S = 30.0
_COMMAND_S = 1800.0
_APT_WAIT = f"-o=DPkg::Lock::Timeout={WAIT_S:.0f}"
_APT = {"DEBIAN_FRONTEND": "noninteractive"}


def family(tools: Tools) -> str:
    """``deb``, ``rpm``, or empty for a system whose packages are not known here."""
    if tools.find("dpkg-query") and tools.find("apt-get"):
        return "deb"
    return "rpm" if tools.find("rpm") else ""


def missing(names: Sequence[str], *, tools: Tools) -> tuple[str, ...]:
    """Those that are not installed."""
    is_installed = _is_deb if family(tools) == "deb" else _is_rpm
    return tuple(name for name in names if not is_installed(name, tools))


def install(names: Sequence[str], *, tools: Tools, say: Say) -> None:
    """Install these; ``EngineFailed`` with the last line, ``DeadlinePassed`` for a lock."""
    for words in _commands(names, tools):
        _patiently(words, tools=tools, say=say)


def _is_deb(name: str, tools: Tools) -> bool:
    asked = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name]
    told = tools.run(asked, timeout_s=_ASK_S)
    return told.is_ok and told.output.startswith("ii")


def _is_rpm(name: str, tools: Tools) -> bool:
    return tools.run(["rpm", "-q", name], timeout_s=_ASK_S).is_ok


def _commands(names: Sequence[str], tools: Tools) -> list[list[str]]:
    if family(tools) == "deb":
        # apt's own waiting does not cover the lock of the lists, which update takes.
        install_words = ["install", "-y", "--no-install-recommends", *names]
        return [["apt-get", _APT_WAIT, "update"], ["apt-get", _APT_WAIT, *install_words]]
    for tool in ("dnf", "yum"):
        if tools.find(tool):
            return [[tool, "install", "-y", *names]]
    if tools.find("zypper"):
        return [["zypper", "--non-interactive", "install", *names]]
    raise EngineFailed(
        f"{', '.join(names)} must be installed, and neither dnf nor yum nor zypper is here"
    )


def _patiently(words: Sequence[str], *, tools: Tools, say: Say) -> None:
    begun_at = tools.clock.monotonic()
    while True:
        say(f"installing packages with {words[0]}")
        told = tools.run(words, timeout_s=_COMMAND_S, more=_APT)
        if told.is_ok:
            return
        if not _is_locked(told):
            raise EngineFailed(f"{' '.join(words)} failed ({told.code}): {told.last_line}")
        if tools.clock.monotonic() - begun_at >= WAIT_S:
            raise DeadlinePassed(
                f"another package command has held {words[0]} up for {WAIT_S:.0f} s; let it end, "
                "then try again"
            )
        say(f"waiting for another package command to finish; {words[0]} is locked")
        tools.sleep(POLL_S)


def _is_locked(told: Finished) -> bool:
    return any(text in told.output for text in LOCKED)
