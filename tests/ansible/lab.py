"""A lab: hosts that boot systemd and sshd, and a controller that has nothing but this checkout.

The hosts are podman containers on a network of this machine alone; `molecule/shared` holds what
they are made from. Whoever opens a lab gets an address range of its own, so that several may run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "molecule" / "shared"
IMAGE = "localhost/llmgw-testhost:bookworm"
NEWER_IMAGE = "localhost/llmgw-testhost:trixie"
"""The next Debian: another Python, so other wheels."""

NETWORKS = tuple(f"10.89.{number}" for number in range(77, 97))
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"

IMAGE_WITHIN_S = 600
BOOT_WITHIN_S = 60
PLAY_WITHIN_S = 600
COMMAND_WITHIN_S = 60


class LabFailed(AssertionError):
    """A command of the lab did not do what it should."""


@dataclass(frozen=True)
class Host:
    """One booted host."""

    name: str
    container: str
    address: str

    def run(self, *words: str, stdin: str | None = None, is_checked: bool = True) -> str:
        """What a command prints on the host, as root."""
        return podman("exec", "-i", self.container, *words, stdin=stdin, is_checked=is_checked)

    def write(self, path: str, content: str) -> None:
        """A file on the host."""
        self.run("sh", "-c", f"mkdir -p $(dirname {path}); cat > {path}", stdin=content)

    def put(self, file: Path, path: str) -> None:
        """A file of this machine, on the host."""
        self.run("mkdir", "-p", str(Path(path).parent))
        podman("cp", str(file), f"{self.container}:{path}")

    def wait_until_booted(self) -> None:
        """Until systemd says that all has been started."""
        deadline = time.monotonic() + BOOT_WITHIN_S
        while time.monotonic() < deadline:
            time.sleep(1)  # at once it says: Failed to connect to bus
            said = self.run("systemctl", "is-system-running", "--wait", is_checked=False).strip()
            if said == "running":
                return
        raise LabFailed(f"{self.name} did not boot: {said}\n{self.run('systemctl', '--failed')}")


@dataclass(frozen=True)
class Played:
    """How a playbook ended."""

    rc: int
    output: str
    took_s: float

    @property
    def changed(self) -> int:
        """How many tasks changed something, on all hosts."""
        return sum(self.counts("changed").values())

    def counts(self, word: str) -> dict[str, int]:
        """``ok``, ``changed``, ``failed`` … of each host."""
        recap = self.output.partition("PLAY RECAP")[2]
        rows = re.findall(rf"^(\S+)\s+: .*\b{word}=(\d+)", recap, flags=re.MULTILINE)
        return {host: int(count) for host, count in rows}

    def changes(self) -> list[str]:
        """The tasks that changed something, for a failed test to show."""
        tasks = re.split(r"\nTASK \[", self.output)
        return [t.partition("]")[0] for t in tasks if re.search(r"^changed: ", t, re.MULTILINE)]

    @property
    def failure(self) -> str:
        """What the failed task said, on one line."""
        text = self.output.partition("PLAY RECAP")[0]
        return " ".join(text[text.rfind("\nTASK [") :].split())


@dataclass
class Lab:
    """Hosts, their network and a controller."""

    folder: Path
    net: str
    hosts: dict[str, Host] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What the names of containers and network begin with."""
        return f"llmgw-lab-{self.net.rpartition('.')[2]}"

    @property
    def sockets(self) -> Path:
        """Where ssh keeps its connections; a socket's path has room for about 100 characters."""
        return Path(tempfile.gettempdir()) / self.prefix

    @property
    def gateway(self) -> str:
        """This machine, as the hosts see it; it has this address while a host runs."""
        return f"{self.net}.1"

    def boot(self, name: str, *, last: int, image: str = IMAGE) -> Host:
        """A host at the address that ends so; it lets our key in, as ``ops``."""
        host = self.create(name, last=last, image=image)
        podman("start", host.container)
        host.wait_until_booted()
        self.let_in(host, (self.folder / "key.pub").read_text())
        return host

    def create(self, name: str, *, last: int, image: str = IMAGE) -> Host:
        """A host that is off."""
        host = Host(name, f"{self.prefix}-{name}", f"{self.net}.{last}")
        podman(
            *("create", "--name", host.container, "--hostname", name),
            *("--systemd=always", "--privileged"),
            *("--network", self.prefix, "--ip", host.address, image),
        )
        self.hosts[name] = host
        return host

    def let_in(self, host: Host, key: str) -> None:
        """Whoever has this key may log in as ``ops``."""
        script = (
            "install -d -m 0700 -o ops -g ops ~ops/.ssh && cat > ~ops/.ssh/authorized_keys "
            "&& chown ops: ~ops/.ssh/authorized_keys"
        )
        host.run("sh", "-c", script, stdin=key)

    @property
    def environment(self) -> dict[str, str]:
        """What the controller's programs are started with, and nothing more."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.sockets),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "ansible" / "lab_callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "stop_after",
            "ANSIBLE_INVENTORY": "../inventories/lab",
            "LLMGW_LAB": str(self.folder),
            "LLMGW_LAB_NET": self.net,
            **{key: os.environ[key] for key in _PASSED if key in os.environ},
            **self.variables,
        }

    def play(self, playbook: str, *words: str, environ: Mapping[str, str] | None = None) -> Played:
        """``ansible-playbook`` as a person types it, in the folder ``playbooks``."""
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", playbook, *words],
            cwd=self.folder / "checkout" / "playbooks",
            env={**self.environment, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PLAY_WITHIN_S,
        )
        took_s = time.monotonic() - began
        log = self.folder / "plays.log"
        with log.open("a") as file:
            file.write(f"$ ansible-playbook {playbook} {' '.join(words)}\n{done.stdout}")
            file.write(f"took {took_s:.0f} s, ended with {done.returncode}\n\n")
        return Played(done.returncode, done.stdout, took_s)

    def close(self) -> None:
        """Everything that the lab made on this machine is gone."""
        for host in self.hosts.values():
            podman("rm", "--force", "--time", "0", host.container, is_checked=False)
        podman("network", "rm", "--force", self.prefix, is_checked=False)
        shutil.rmtree(self.sockets, ignore_errors=True)
        route = ("route", "del", "unreachable", f"{self.net}.0/24", "metric", "4096")
        subprocess.run(["ip", *route], check=False, capture_output=True)


_PASSED = ("SSL_CERT_FILE", "PIP_CERT", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
"""How pip reaches its index from this machine; a controller somewhere else has its own."""


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Lab]:
    """A lab without hosts; its folder gets the key, a copy of this checkout and all logs."""
    make_image(IMAGE)
    lab = Lab(folder=folder, net=_network())
    try:
        (folder / "home").mkdir()
        copy_checkout(folder / "checkout")
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
        subprocess.run(keygen, check=True)
        yield lab
    finally:
        lab.close()


def make_image(image: str) -> None:
    """The image of a host, unless it was made by the same recipe before."""
    suite = image.rpartition(":")[2]
    recipe = [str(SHARED / "make-image.sh"), suite]
    subprocess.run(recipe, check=True, timeout=IMAGE_WITHIN_S)


def copy_checkout(target: Path) -> None:
    """The files of this checkout, and nothing that was made in it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def model_file() -> Path:
    """The model of the first run, which `make up` uses too."""
    folder = ROOT / ".llmgw" / "models"
    fetch = [sys.executable, str(ROOT / ".make" / "fetch_model.py"), str(folder)]
    subprocess.run(fetch, check=True, timeout=IMAGE_WITHIN_S)
    return folder / MODEL


def podman(*words: str, stdin: str | None = None, is_checked: bool = True) -> str:
    """What podman prints."""
    done = subprocess.run(
        ["podman", *words],
        env={**os.environ, "CONTAINERS_CONF": str(SHARED / "containers.conf")},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_WITHIN_S,
    )
    if is_checked and done.returncode:
        raise LabFailed(f"podman {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def chat(address: str, question: str, *, model: str, max_tokens: int = 24) -> str:
    """The answer of a gateway, as a client gets it."""
    document = ask(
        f"http://{address}:8080/v1/chat/completions",
        {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": max_tokens,
            "temperature": 0,
        },
    )
    return document["choices"][0]["message"]["content"]


def ask(url: str, body: Mapping | None = None, *, timeout_s: float = 60) -> dict:
    """One JSON document."""
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.load(answer)


def _network() -> str:
    """The first range that no network of podman has; packets to it never leave this machine."""
    taken = podman("network", "ls", "--format", "{{.Name}}").split()
    for net in NETWORKS:
        name, subnet = f"llmgw-lab-{net.rpartition('.')[2]}", f"{net}.0/24"
        if name in taken or _is_routed(net):
            continue
        # The bridge's own route wins while there is one; without it the default route would.
        route = ["route", "replace", "unreachable", subnet, "metric", "4096"]
        subprocess.run(["ip", *route], check=True)
        podman("network", "create", "--subnet", subnet, name)
        return net
    raise LabFailed(f"no free network among {', '.join(NETWORKS)}")


def _is_routed(net: str) -> bool:
    shown = subprocess.run(["ip", "route"], check=True, capture_output=True, text=True)
    lines: Sequence[str] = shown.stdout.splitlines()
    return any(f"{net}.0/24" in line for line in lines)
