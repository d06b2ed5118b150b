"""A cluster for the longer stories: a control plane and a node that serves, made by playbooks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lab
import lab_releases
from lab import Host, Lab, Played

MODEL = "smollm2"
NODES_FILE = "llmgw.nodes.yml"


@dataclass
class Cluster:
    """The lab, and what runs in it."""

    site: Lab
    control: Host
    releases: lab_releases.ReleaseSite

    def node(self, name: str) -> Host:
        """A host by its name."""
        return self.site.hosts[name]

    def machine(self, name: str, *, last: int, image: str = lab.IMAGE) -> Host:
        """A booted machine with the model, that is no node yet; the one that is there, if any."""
        if name in self.site.hosts:
            return self.site.hosts[name]
        host = self.site.boot(name, last=last, image=image)
        host.put(lab.model_file(), f"/srv/models/{lab.MODEL}")
        return host

    def add(self, *names: str, environ: Mapping[str, str] | None = None, **variables) -> Played:
        """``add-node.yml`` for machines that are there."""
        given = {"names": list(names), "provision": False, **variables}
        return self.site.play("add-node.yml", "-e", json.dumps(given), environ=environ)

    def verify(self, *words: str) -> Played:
        """``verify.yml`` for all that the control plane knows."""
        return self.site.play(
            "verify.yml", "-i", "../inventories/lab", "-i", str(self._inventory()), *words
        )

    def seen(self, name: str) -> Mapping:
        """The node as the control plane sees it."""
        nodes = json.loads(self.control.run("llmgw", "ctl", "nodes", "--json"))["nodes"]
        found = [node for node in nodes if node["node_id"] == name]
        return found[0] if found else {}

    def main_pid(self, host: Host, service: str) -> str:
        """The process of a service."""
        return host.run("systemctl", "show", service, "--value", "-p", "MainPID").strip()

    def engine_pids(self, host: Host) -> list[str]:
        """The engines of a node."""
        return host.run("pgrep", "-f", "llama-server.*--port", is_checked=False).split()

    def _inventory(self) -> Path:
        """The fleet as the control plane knows it, as a source of hosts."""
        file = self.site.folder / NODES_FILE
        source = {
            "plugin": "llmgw.fleet.nodes",
            "via": "ssh",
            "ssh_host": f"ops@{self.control.address}",
            "ssh_args": [
                *("-i", str(self.site.folder / "key")),
                *("-o", f"UserKnownHostsFile={self.site.folder / 'known_hosts'}"),
            ],
        }
        file.write_text(json.dumps(source))
        return file


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A control plane and ``node05``, which serves the model."""
    with contextlib.ExitStack() as parts:
        site = parts.enter_context(lab.opened(folder))
        control = site.boot("control01", last=10)
        releases = parts.enter_context(lab_releases.serving(site.gateway))
        site.variables["LLMGW_LAB_RELEASES"] = releases.url
        if genuine := lab_releases.genuine_archive():
            releases.add(lab_releases.ASSET, genuine)
        cluster = Cluster(site=site, control=control, releases=releases)
        made = site.play("control-plane.yml")
        assert made.rc == 0, made.output
        cluster.machine("node05", last=145)
        joined = cluster.add("node05")
        assert joined.rc == 0, joined.output
        control.run("llmgw", "ctl", "wait", MODEL, "--timeout", "60s")
        yield cluster
