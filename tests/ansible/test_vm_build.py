"""What a build has to do and what stands in its way, decided from what Proxmox says: no I/O."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from ansible_collections.llmgw.fleet.plugins.module_utils import (
    _vm_build,
    _vm_devices,
    _vm_inputs,
)
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_values import GIB, Guest, Wanted
from playing import COLLECTIONS

SETTINGS = {"boot": "order=scsi0", "ciuser": "ops", "sshkeys": "ssh-ed25519 AAAA a@b\n"}
WANTED = Wanted(
    name="node05",
    vmid=145,
    node="pve1",
    storage="local-lvm",
    image_storage="local",
    image_name="noble.qcow2",
    image_source="",
    bridge="vmbr0",
    disk_gb=20,
    cores=4,
    memory_mb=8192,
    cpu="host",
    cloud_init_drive="ide2",
    settings=SETTINGS,
)
FINISHED = {
    "name": "node05",
    "cores": 4,
    "memory": "8192",
    "cpu": "host",
    "tags": "llmgw",
    "scsi0": "local-lvm:vm-145-disk-0,discard=on,size=20G,ssd=1",
    "ide2": "local-lvm:vm-145-cloudinit,media=cdrom",
    "boot": "order=scsi0",
    "ciuser": "ops",
    "sshkeys": "ssh-ed25519%20AAAA%20a%40b",
}
STORAGE = {"enabled": 1, "active": 1, "content": "iso,import", "avail": 100 * GIB}
GIVEN = {
    "api_host": "pve1",
    "api_user": "llmgw@pve",
    "api_token_id": "fleet",
    "api_token_secret": "s",
    "name": "node05",
    "vmid": None,
    "vmid_base": 0,
    "address": "10.0.0.145/24",
    "gateway": "10.0.0.1",
    "node": "pve1",
    "user": "ops",
    "ssh_keys": ["ssh-ed25519 AAAA a@b"],
    "image_source": "none",
    "image_sha256": "",
}


def guest(name="node05", tags=(), *, vmid=145, kind="qemu", lock=""):
    """What holds a number."""
    return Guest(vmid, name, "pve1", kind, "running", frozenset(tags), lock)


@pytest.mark.parametrize(
    ("holder", "is_free", "namesakes", "word"),
    [
        (None, True, [], "free"),
        (None, False, [], "foreign"),
        (None, True, [guest(vmid=200)], "foreign"),
        (None, True, [guest(vmid=200, tags=["llmgw"])], "foreign"),
        (guest(tags=["llmgw"]), False, [], "ours"),
        (guest(tags=["llmgw", "production"]), False, [], "ours"),
        (guest(tags=["llmgw-building"]), False, [], "building"),
        (guest(tags=["llmgw", "llmgw-building"]), False, [], "building"),
        (guest(), False, [], "foreign"),
        (guest(tags=["llmgw2"]), False, [], "foreign"),
        (guest("node06", tags=["llmgw"]), False, [], "foreign"),
        (guest("", lock="create"), False, [], "foreign"),
        (guest(tags=["llmgw"], kind="lxc"), False, [], "foreign"),
    ],
    ids=[
        "nobody",
        "hidden",
        "namesake",
        "our-namesake",
        "ours",
        "ours-with-other-tags",
        "unfinished",
        "unfinished-with-both-tags",
        "untagged",
        "nearly-our-tag",
        "another-name",
        "in-creation",
        "container",
    ],
)
def test_the_verdict_is_told_by_number_name_and_tag(holder, is_free, namesakes, word):
    judged = _vm_build.verdict(WANTED, holder=holder, is_free=is_free, namesakes=namesakes)
    assert judged.word == word
    assert bool(judged.problem) == (word == "foreign")


def test_a_vm_of_ours_under_another_number_tells_how_to_go_on():
    judged = _vm_build.verdict(
        WANTED, holder=None, is_free=True, namesakes=[guest(vmid=200, tags=["llmgw"])]
    )
    assert judged.problem.endswith("to go on with it, set vmid to 200")


class TestSteps:
    def test_of_nothing_are_all_in_order(self):
        due = _vm_build.steps(WANTED, word="free", has_image=False, status="", config={})
        assert due == list(_vm_build.STEPS)

    def test_of_a_finished_vm_are_none(self):
        due = _vm_build.steps(
            WANTED, word="ours", has_image=False, status="running", config=FINISHED
        )
        assert due == []

    def test_are_exactly_what_is_not_done_whatever_was(self):
        parts = {
            "disk": ("scsi0",),
            "cloud_init": ("ide2",),
            "settings": ("boot", "ciuser", "sshkeys"),
        }
        for done in itertools.product([True, False], repeat=len(parts)):
            missing = [step for step, is_done in zip(parts, done, strict=True) if not is_done]
            gone = {key for step in missing for key in parts[step]}
            config = {key: value for key, value in FINISHED.items() if key not in gone}
            due = _vm_build.steps(
                WANTED, word="building", has_image=True, status="stopped", config=config
            )
            grow = ["grow"] if "disk" in missing else []
            assert sorted(due) == sorted([*missing, *grow, "start", "finish"])
            assert due == [step for step in _vm_build.STEPS if step in due]

    @pytest.mark.parametrize(
        ("size", "grows"),
        [("3584M", True), ("20G", False), ("20480M", False), ("32G", False), ("1T", False)],
    )
    def test_grow_a_disk_and_never_shrink_it(self, size, grows):
        config = {**FINISHED, "scsi0": f"local-lvm:vm-145-disk-0,size={size},ssd=1"}
        due = _vm_build.steps(
            WANTED, word="building", has_image=True, status="stopped", config=config
        )
        assert ("grow" in due) == grows

    def test_fetch_no_image_for_a_vm_that_has_its_disk(self):
        due = _vm_build.steps(
            WANTED, word="building", has_image=False, status="stopped", config=FINISHED
        )
        assert "image" not in due

    @pytest.mark.parametrize(
        ("key", "value"),
        [("boot", "order=net0"), ("ciuser", "root"), ("sshkeys", "ssh-ed25519%20BBBB")],
    )
    def test_set_again_what_differs(self, key, value):
        due = _vm_build.steps(
            WANTED,
            word="building",
            has_image=True,
            status="stopped",
            config={**FINISHED, key: value},
        )
        assert "settings" in due

    def test_take_the_parts_of_a_setting_in_any_order(self):
        wanted = replace(WANTED, settings={"ipconfig0": "ip=10.0.0.145/24,gw=10.0.0.1"})
        config = {**FINISHED, "ipconfig0": "gw=10.0.0.1,ip=10.0.0.145/24"}
        due = _vm_build.steps(
            wanted, word="building", has_image=True, status="stopped", config=config
        )
        assert "settings" not in due


def test_a_finished_vm_keeps_the_tags_that_people_gave_it():
    assert _vm_build.final_tags({"tags": "llmgw-building;gpu;rack-7"}) == ["gpu", "llmgw", "rack-7"]
    assert _vm_build.final_tags({}) == ["llmgw"]


def test_drift_names_each_difference_and_nothing_that_is_equal():
    config = {**FINISHED, "cores": 2, "memory": "4096", "cpu": "kvm64"}
    config["scsi0"] = config["scsi0"].replace("20G", "8G")
    assert _vm_build.drift(WANTED, config) == [
        "cores is 2, wanted 4",
        "memory is 4096, wanted 8192",
        "cpu is kvm64, wanted host",
        "disk is 8 GiB, wanted 20 GiB",
    ]
    assert _vm_build.drift(WANTED, FINISHED) == []
    assert _vm_build.drift(WANTED, {**FINISHED, "memory": "current=8192"}) == []


class TestRights:
    def test_for_no_step_are_none(self):
        assert _vm_build.rights(WANTED, []) == []

    def test_for_a_start_are_the_power_alone(self):
        assert list(map(str, _vm_build.rights(WANTED, ["start"]))) == ["VM.PowerMgmt on /vms/145"]

    def test_for_a_build_cover_vm_storages_and_bridge(self):
        listed = set(map(str, _vm_build.rights(WANTED, ["create", "disk"])))
        assert "VM.Allocate on /vms/145" in listed
        assert "Datastore.AllocateSpace on /storage/local-lvm" in listed
        assert "Datastore.Audit or Datastore.AllocateSpace on /storage/local" in listed
        assert "SDN.Use on /sdn/zones/localnetwork/vmbr0" in listed
        assert not any("AllocateTemplate" in right for right in listed)

    def test_for_an_image_and_a_device_are_asked_too(self):
        wanted = replace(WANTED, image_source="src", gpu_mappings=["l40s", "l40s"])
        listed = list(map(str, _vm_build.rights(wanted, ["image", "create"])))
        assert "Datastore.AllocateTemplate on /storage/local" in listed
        assert listed.count("Mapping.Use on /mapping/pci/l40s") == 1

    def test_that_are_asked_for_stand_in_the_readme_of_the_role(self):
        readme = COLLECTIONS / "ansible_collections" / "llmgw" / "fleet" / "roles" / "vm"
        told = (readme / "README.md").read_text()
        wanted = replace(WANTED, image_source="url", gpu_mappings=["l40s"])
        listed = _vm_build.rights(wanted, ["image", "create"])
        asked = {word for right in listed for word in right.any_of}
        asked |= set(_vm_build.download_right(wanted).any_of)
        assert [word for word in asked if word not in told] == []


class TestStorage:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, ""),
            ({"active": 0}, "is not active on pve1"),
            ({"enabled": 0}, "is not active on pve1"),
            ({"content": "iso"}, "pvesm set local --content iso,import"),
            ({"avail": GIB}, "has 1 GiB free, the image needs 3.5 GiB"),
        ],
        ids=["good", "away", "off", "content", "full"],
    )
    def test_that_does_not_serve_says_why(self, changes, words):
        problem = _vm_build.storage_problem(
            WANTED,
            name="local",
            status={**STORAGE, **changes},
            content="import",
            least_bytes=7 * GIB // 2,
        )
        assert words in problem
        assert bool(words) == bool(problem)

    def test_that_is_not_there_says_so(self):
        problem = _vm_build.storage_problem(WANTED, name="nas", status=None, content="import")
        assert problem.startswith("pve1 has no storage nas")


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("9.0.10", False), ("8.4.1", False), ("8.3.5", True), ("7.4-17", True), ("10.0", False)],
)
def test_releases_that_cannot_import_are_refused(version, is_old):
    assert bool(_vm_build.release_problem({"version": version})) == is_old


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], ""),
        ([{"type": "qmstart", "status": "RUNNING"}, {"type": "qmstart"}], ""),
        (
            [
                {"type": "qmstart", "status": "no", "starttime": 1},
                {"type": "qmstart", "status": "OK", "starttime": 2},
            ],
            "",
        ),
        ([{"type": "qmcreate", "status": "WARNINGS: 1"}], ""),
        ([{"type": "qmstart", "status": "no space"}], "qmstart: no space"),
    ],
    ids=["none", "running", "last-did-well", "warned", "failed"],
)
def test_the_last_task_is_told_when_it_failed(tasks, words):
    assert _vm_build.task_failure(tasks) == words


class TestInputs:
    def test_that_are_right_have_no_problem(self):
        assert _vm_inputs.access_problems(GIVEN) == _vm_inputs.input_problems(GIVEN) == []
        assert _vm_inputs.vmid_of(GIVEN) == 145

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"name": "control-plane"}, "is reserved"),
            ({"address": ""}, "vm_ip is not set"),
            ({"address": "10.0.0.300/24"}, "is no address with a prefix"),
            ({"address": "10.0.0.145"}, "has no prefix: write 10.0.0.145/24"),
            ({"address": "10.0.0.45/24"}, "makes VMID 45"),
            ({"address": "fd00::5/64", "gateway": ""}, "is an IPv6 address and has no last octet"),
            ({"gateway": "10.0.1.1"}, "vm_gateway 10.0.1.1 is no address in 10.0.0.0/24"),
            ({"gateway": "gw"}, "vm_gateway gw is no address in 10.0.0.0/24"),
            ({"node": ""}, "vm_node is not set"),
            ({"user": ""}, "vm_user is not set"),
            ({"ssh_keys": []}, "vm_ssh_keys is empty"),
            ({"image_source": "url"}, "vm_image_sha256 is no SHA-256 sum"),
        ],
        ids=lambda value: "" if isinstance(value, str) else "-".join(value),
    )
    def test_that_are_wrong_are_named(self, changes, words):
        (problem,) = _vm_inputs.input_problems({**GIVEN, **changes})
        assert words in problem

    def test_of_a_machine_alone_in_its_network_may_name_a_gateway_outside(self):
        assert _vm_inputs.input_problems({**GIVEN, "address": "10.0.0.145/32"}) == []

    def test_that_hold_a_private_key_do_not_show_it(self):
        key = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"
        (problem,) = _vm_inputs.input_problems({**GIVEN, "ssh_keys": [key]})
        assert "vm_ssh_keys holds a private key" in problem
        assert "c2VjcmV0" not in problem

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"api_host": ""}, "vm_api_host is not set"),
            ({"api_user": "llmgw"}, "has no realm: write llmgw@pve"),
            ({"api_token_id": "llmgw@pve!fleet"}, "vm_api_token_id after it"),
            ({"api_token_secret": ""}, "vm_api_token_secret is not set"),
        ],
        ids=["host", "realm", "whole-token", "secret"],
    )
    def test_of_the_api_that_are_wrong_are_named(self, changes, words):
        (problem,) = _vm_inputs.access_problems({**GIVEN, **changes})
        assert words in problem

    def test_base_and_number(self):
        assert _vm_inputs.vmid_of({**GIVEN, "vmid_base": 1000}) == 1145
        assert _vm_inputs.vmid_of({**GIVEN, "vmid": 300}) == 300
        assert _vm_inputs.vmid_of({**GIVEN, "address": "nonsense"}) == 0


class TestDevices:
    HERE = "node=pve1,path=0000:01:00.0,iommugroup=15"

    def problems(self, *names, devices=(HERE,), users=(), checks=()):
        """Of mappings of which only ``l40s`` exists."""
        mapping = {"id": "l40s", "map": list(devices), "checks": list(checks)}
        return _vm_devices.problems(
            replace(WANTED, gpu_mappings=names), mappings=[mapping], users={"l40s": list(users)}
        )

    def test_that_are_free_have_no_problem(self):
        assert self.problems("l40s") == []
        assert self.problems("l40s", "l40s", devices=[self.HERE, self.HERE]) == []

    def test_are_counted(self):
        (problem,) = self.problems("l40s", "l40s", devices=[self.HERE])
        assert problem.startswith("2 of l40s wanted, but pve1 has 1 and running VMs hold 0")
        assert self.problems("l40s", devices=[self.HERE, self.HERE], users=[guest("db1")]) == []

    @pytest.mark.parametrize("address", ["01:00.0", "0000:01:00.0", "0000:01:00", "c1:00.1"])
    def test_by_address_are_refused(self, address):
        (problem,) = self.problems(address)
        assert "is a PCI address" in problem

    def test_warnings_of_proxmox_do_not_stop_a_build(self):
        assert self.problems("l40s", checks=[{"severity": "warning", "message": "hm"}]) == []
        assert self.problems("l40s", checks=[{"severity": "error", "message": "hm"}]) != []

    def test_of_a_vm_are_read_from_its_configuration(self):
        config = {"hostpci0": "mapping=l40s,pcie=1", "hostpci1": "0000:02:00.0", "net0": "virtio"}
        assert _vm_devices.mappings_of(config) == ["l40s"]
