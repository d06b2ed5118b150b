"""What the role ``vm`` promises, through ``ansible-playbook`` against the Proxmox double."""

from __future__ import annotations

import json
import socket
import threading

import pytest
import yaml
from proxmox_double import GIB, Image
from proxmox_serving import SECRET, TOKEN, serving
from vm_stage import (
    KEY,
    NOBLE,
    NOBLE_URL,
    Processes,
    Stage,
    changes,
    furnished,
    problems,
)

CREATE = "POST /nodes/pve1/qemu"
CONFIG = "PUT /nodes/pve1/qemu/145/config"
DISK = "POST /nodes/pve1/qemu/145/config"
RESIZE = "PUT /nodes/pve1/qemu/145/resize"
START = "POST /nodes/pve1/qemu/145/status/start"
DOWNLOAD = "POST /nodes/pve1/storage/local/download-url"
BUILD = [CREATE, DISK, RESIZE, DISK, CONFIG, START, CONFIG]


@pytest.fixture
def stage(controller, tmp_path):
    """A cluster that holds the image and nothing else."""
    double = furnished()
    with serving(double, tmp_path) as ca:
        yield Stage(double=double, controller=controller, ca=ca)


@pytest.fixture
def bare(controller, tmp_path):
    """A cluster without the image, which is on the web."""
    double = furnished(has_image=False)
    with serving(double, tmp_path) as ca:
        yield Stage(double=double, controller=controller, ca=ca)


class TestABuild:
    def test_sets_what_the_table_says_and_nothing_else(self, stage):
        played = stage.build()
        assert played.rc == 0, played.output
        assert stage.writes == BUILD
        creation, image_disk, growth, cloud_init, settings, _start, tags = (
            call.values for call in stage.double.log.writes
        )
        assert creation == {
            "vmid": "145",
            "name": "node05",
            "cores": "4",
            "memory": "8192",
            "cpu": "host",
            "ostype": "l26",
            "agent": "enabled=1",
            "scsihw": "virtio-scsi-pci",
            "net0": "virtio,bridge=vmbr0",
            "onboot": "1",
            "tags": "llmgw-building",
        }
        assert image_disk == {
            "scsi0": f"local-lvm:0,import-from=local:import/{NOBLE},discard=on,ssd=1"
        }
        assert growth == {"disk": "scsi0", "size": "20G"}
        assert cloud_init == {"ide2": "local-lvm:cloudinit,media=cdrom"}
        assert settings == {
            "name": "node05",
            "boot": "order=scsi0",
            "ciupgrade": "0",
            "ciuser": "ops",
            "ipconfig0": "ip=10.0.0.145/24,gw=10.0.0.1",
            "nameserver": "10.0.0.1 9.9.9.9",
            "sshkeys": KEY.replace(" ", "%20").replace("@", "%40"),
        }
        assert tags == {"name": "node05", "tags": "llmgw"}
        assert stage.vm.status == "running"
        assert played["After"]["msg"] == "new=True"

    @pytest.mark.slow
    def test_takes_what_is_given(self, stage):
        stage.double.bridges.add("vmbr1")
        played = stage.build(
            vm_cpu="x86-64-v3",
            vm_bridge="vmbr1",
            vm_vlan="20",
            vm_vmid="1145",
            vm_cores="2",
            vm_memory_mb="2048",
            vm_disk_gb="4",
            vm_onboot=False,
            vm_gateway="",
            vm_nameservers=[],
        )
        assert played.rc == 0, played.output
        creation = stage.named(CREATE).values
        assert (creation["vmid"], creation["cpu"], creation["onboot"]) == ("1145", "x86-64-v3", "0")
        assert creation["net0"] == "virtio,bridge=vmbr1,tag=20"
        assert stage.named("PUT /nodes/pve1/qemu/1145/resize").values["size"] == "4G"
        config = stage.double.vm(1145).config
        assert config["ipconfig0"] == "ip=10.0.0.145/24"
        assert "nameserver" not in config

    @pytest.mark.slow
    def test_an_ipv6_machine_needs_a_number_and_gets_its_address(self, stage):
        played = stage.build(
            vm_ip="fd00:5::145/64",
            vm_gateway="fd00:5::1",
            vm_nameservers=["fd00:5::1"],
            vm_vmid=145,
            vm_allow_live_ip=False,
        )
        assert played.rc == 0, played.output
        assert stage.vm.config["ipconfig0"] == "ip6=fd00:5::145/64,gw6=fd00:5::1"

    @pytest.mark.slow
    def test_a_disk_of_the_size_of_its_image_is_not_resized(self, stage):
        stage.double.add_image("four.qcow2", disk_bytes=4 * GIB)
        played = stage.build(vm_image_name="four.qcow2", vm_disk_gb=4)
        assert played.rc == 0, played.output
        assert RESIZE not in stage.writes

    def test_a_trial_run_prints_the_plan_and_writes_nothing(self, stage):
        played = stage.build("--check", "--diff")
        assert played.rc == 0, played.output
        assert stage.writes == []
        assert "VM node05, VMID 145 on pve1: is built: create, disk, grow" in played.output
        assert "After" not in played.tasks

    @pytest.mark.slow
    def test_that_cannot_start_says_what_proxmox_says_removes_nothing_and_goes_on_later(
        self, stage
    ):
        stage.double.start_fault = "KVM virtualisation configured, but not available"
        said = problems(stage.build(vm_start_wait_s=2))
        assert "qmstart: KVM virtualisation configured, but not available" in said
        assert "Nothing was removed" in said
        stage.double.start_fault = None
        assert stage.build().rc == 0
        assert stage.writes == [START, CONFIG]


class TestTheImage:
    def test_is_fetched_by_the_proxmox_host_with_its_sum(self, bare):
        image = bare.double.web_files[NOBLE_URL]
        played = bare.build(vm_image_url=NOBLE_URL, vm_image_sha256=image.sha256)
        assert played.rc == 0, played.output
        assert bare.writes == [DOWNLOAD, *BUILD]
        assert bare.named(DOWNLOAD).values == {
            "url": NOBLE_URL,
            "content": "import",
            "filename": NOBLE,
            "checksum": image.sha256,
            "checksum-algorithm": "sha256",
        }

    def test_with_another_sum_stops_the_build_before_there_is_a_vm(self, bare):
        said = problems(bare.build(vm_image_url=NOBLE_URL, vm_image_sha256="0" * 64))
        assert "checksum mismatch" in said
        assert bare.writes == [DOWNLOAD]

    @pytest.mark.slow
    def test_is_sent_by_the_controller_under_the_name_that_proxmox_takes(self, bare, tmp_path):
        file = tmp_path / "noble-server-cloudimg-amd64.img"
        file.write_bytes(b"from the bundle")
        played = bare.build(
            vm_image_src=str(file), vm_image_sha256=Image(b"from the bundle", 0).sha256
        )
        assert played.rc == 0, played.output
        upload = bare.named("POST /nodes/pve1/storage/local/upload").values
        assert upload == {"content": "import", "filename": NOBLE}

    def test_file_that_is_another_is_not_sent(self, bare, tmp_path):
        file = tmp_path / "noble.img"
        file.write_bytes(b"something else")
        said = problems(bare.build(vm_image_src=str(file), vm_image_sha256="0" * 64))
        assert "has not the sum vm_image_sha256" in said
        assert bare.writes == []

    def test_larger_than_the_disk_is_found_out_after_the_download_and_before_there_is_a_vm(
        self, bare
    ):
        image = bare.double.web_files[NOBLE_URL]
        played = bare.build(vm_image_url=NOBLE_URL, vm_image_sha256=image.sha256, vm_disk_gb="3")
        assert "set vm_disk_gb to 4 or more" in problems(played)
        assert bare.writes == [DOWNLOAD]

    @pytest.mark.slow
    def test_is_fetched_once_for_machines_that_are_built_together(self, bare, tmp_path):
        hosts = tmp_path / "hosts.yml"
        hosts.write_text(
            "all: {hosts: {node05: {vm_ip: 10.0.0.145/24}, node06: {vm_ip: 10.0.0.146/24}}}"
        )
        played = bare.play(
            inventory=hosts,
            vm_ip=None,
            vm_image_url=NOBLE_URL,
            vm_image_sha256=bare.double.web_files[NOBLE_URL].sha256,
        )
        assert played.rc == 0, played.output
        assert bare.writes.count(DOWNLOAD) == 1
        assert {vm.name: vm.status for vm in bare.double.vms} == {
            "node05": "running",
            "node06": "running",
        }


class TestAVmThatIsOurs:
    def test_is_left_as_it_is(self, stage):
        stage.finished_vm()
        played = stage.build("--diff")
        assert played.rc == 0, played.output
        assert changes(played) == 0
        assert stage.writes == []
        assert played["After"]["msg"] == "new=False"

    def test_may_differ_and_that_is_told(self, stage):
        stage.finished_vm(cores=2, cpu="kvm64")
        played = stage.build()
        assert changes(played) == 0
        assert stage.writes == []
        assert "cores is 2, wanted 4; it stays so" in played.output
        assert "cpu is kvm64, wanted host; it stays so" in played.output

    def test_is_started_when_it_stands_still(self, stage):
        stage.finished_vm().status = "stopped"
        played = stage.build()
        assert played.rc == 0, played.output
        assert stage.writes == [START]

    def test_stays_ours_in_a_trial_run(self, stage):
        stage.finished_vm()
        played = stage.build("--check", "--diff")
        assert played.rc == 0, played.output
        assert changes(played) == 0
        assert "After" in played.tasks

    def test_may_have_moved_to_another_proxmox_host(self, stage):
        stage.finished_vm().node = "pve2"
        stage.double.add_node("pve2")
        assert changes(stage.build()) == 0


class TestSomebodyElses:
    @pytest.mark.parametrize(
        ("name", "config", "words"),
        [
            ("db1", {"tags": "prod"}, "the VM db1 on pve1 (running, tag prod)"),
            ("node05", {}, "the VM node05 on pve1 (running)"),
            ("node06", {"tags": "llmgw"}, "the VM node06 on pve1 (running, tag llmgw)"),
        ],
        ids=["another-vm", "same-name-without-our-tag", "our-tag-on-another-name"],
    )
    def test_vm_is_refused_with_reads_only(self, stage, name, config, words):
        stage.double.add_vm(145, name, status="running", config=config)
        said = problems(stage.build())
        assert f"VMID 145 is taken by {words}" in said
        assert "choose another vmid, or another address" in said
        assert stage.writes == []

    def test_number_is_named_with_all_else_that_would_stand_in_the_way(self, stage):
        stage.double.add_vm(145, "db1", status="running")
        stage.double.storages["local"]["volumes"].clear()
        said = problems(stage.build(vm_bridge="vmbr7"))
        assert "VMID 145 is taken by the VM db1" in said
        assert "the storage local on pve1 holds no image" in said
        assert "pve1 has no bridge vmbr7" in said
        assert stage.writes == []

    def test_container_is_refused_with_reads_only(self, stage):
        stage.double.add_ct(145, "node05", config={"tags": "llmgw"})
        assert "VMID 145 is taken by the container node05 on pve1" in problems(stage.build())
        assert stage.writes == []

    def test_vm_that_the_token_may_not_see_is_refused_too(self, stage):
        rights = stage.double.acl[TOKEN]
        stage.double.acl[TOKEN] = [(path, privileges - {"VM.Audit"}) for path, privileges in rights]
        stage.double.add_vm(145, "hidden", status="running")
        said = problems(stage.build())
        assert "VMID 145 is taken by something that the token may not see" in said
        assert stage.writes == []

    def test_vm_of_our_name_is_refused_under_its_own_number(self, stage):
        stage.double.add_vm(200, "node05", status="running")
        said = problems(stage.build())
        assert "VMID 200 is the VM node05 on pve1 (running) and has this name already" in said
        assert stage.writes == []

    def test_vm_that_wins_the_race_is_refused_in_the_same_words(self, stage):
        stage.double.line.before[CREATE] = lambda: stage.double.add_vm(145, "db1")
        said = problems(stage.build())
        assert "VMID 145 is taken by the VM db1 on pve1 (stopped)" in said
        assert stage.vm.config == {"name": "db1"}

    def test_vm_that_comes_while_the_module_looks_away_is_not_adopted(self, stage):
        """proxmox_kvm says "already exists" and reports success."""
        looks = []

        def second_look():
            looks.append(1)
            if len(looks) == 2:
                stage.double.add_vm(145, "db1")
            stage.double.line.before[listing] = second_look

        listing = "GET /cluster/resources"
        stage.double.line.before[listing] = second_look
        said = problems(stage.build())
        assert "VMID 145 is taken by the VM db1 on pve1 (stopped)" in said
        assert stage.writes == []


class TestAnInterruptedBuild:
    def test_is_finished_by_the_next_runs_whichever_step_was_its_last(self, bare):
        """Each run may write once, then the line is cut and it never hears of it."""
        image = {
            "vm_image_url": NOBLE_URL,
            "vm_image_sha256": bare.double.web_files[NOBLE_URL].sha256,
        }
        written = []
        for _run in range(len(BUILD) + 1):
            bare.double.line.cuts_after = lambda call: call.is_write
            played = bare.build(**image)
            bare.double.line.mend()
            assert played.rc == 2, played.output
            written += bare.writes
        assert written == [DOWNLOAD, *BUILD]
        assert changes(bare.build(**image)) == 0
        assert bare.vm.config["tags"] == "llmgw"
        assert bare.vm.status == "running"

    @pytest.mark.slow
    def test_whose_tasks_still_run_waits_for_them(self, stage):
        stage.double.hold("qmconfig")
        assert stage.build(vm_task_wait_s=2).rc == 2
        assert stage.writes == [CREATE, DISK]
        threading.Timer(3, stage.double.let_go, ["qmconfig"]).start()
        played = stage.build()
        assert played.rc == 0, played.output
        assert stage.writes == [RESIZE, DISK, CONFIG, START, CONFIG]

    @pytest.mark.slow
    def test_whose_creation_still_runs_is_known_by_its_end(self, stage):
        stage.double.hold("qmcreate")
        assert stage.build(vm_task_wait_s=2).rc == 2
        assert stage.vm.name == "VM 145"
        threading.Timer(3, stage.double.let_go, ["qmcreate"]).start()
        played = stage.build()
        assert played.rc == 0, played.output
        assert stage.writes == BUILD[1:]

    @pytest.mark.slow
    def test_that_waits_too_long_says_for_what(self, stage):
        stage.double.hold("qmconfig")
        assert stage.build(vm_task_wait_s=2).rc == 2
        said = problems(stage.build(vm_task_wait_s=2))
        stage.double.let_go("qmconfig")
        assert "a task (qmconfig) of VM 145 still runs on pve1 after 2 s" in said
        assert stage.writes == []

    def test_that_left_a_lock_says_how_to_go_on(self, stage):
        vm = stage.finished_vm(tags="llmgw-building")
        stage.double.snapshot_lock(vm.vmid, "create")
        said = problems(stage.build())
        assert "VM 145 is locked (create) and no task of it runs" in said
        assert "qm unlock 145" in said
        assert stage.writes == []

    @pytest.mark.slow
    @pytest.mark.parametrize("cut_at", range(9, 92, 24))
    def test_after_a_call_of_any_kind_is_finished_by_one_more_run(self, stage, cut_at):
        """Reads leave nothing behind, so a few of them stand for all; the writes are above."""
        calls = []
        stage.double.line.cuts_after = lambda call: calls.append(call) or len(calls) == cut_at
        first = stage.build()
        written = stage.writes
        stage.double.line.mend()
        assert stage.build().rc == 0
        assert first.rc == 0 or (written + stage.writes) == BUILD
        assert stage.vm.status == "running"
        assert stage.vm.config["tags"] == "llmgw"


class TestRights:
    def test_that_are_missing_are_named_all_at_once_before_anything_is_written(self, bare):
        bare.double.acl[TOKEN] = [
            ("/vms", {"VM.Audit", "VM.Allocate", "VM.Config.Disk"}),
            ("/storage/local", {"Datastore.Audit"}),
        ]
        said = problems(bare.build(vm_image_url=NOBLE_URL, vm_image_sha256="a" * 64))
        assert f"the token {TOKEN} lacks " in said
        for words in (
            "VM.Config.CDROM, VM.Config.CPU, VM.Config.Cloudinit, VM.Config.HWType",
            "VM.PowerMgmt on /vms/145",
            "Datastore.AllocateSpace on /storage/local-lvm",
            "Datastore.AllocateTemplate on /storage/local",
            "SDN.Use on /sdn/zones/localnetwork/vmbr0",
            "Sys.AccessNetwork on /nodes/pve1",
        ):
            assert words in said
        assert "VM.Allocate" not in said
        assert bare.writes == []

    def test_are_asked_only_for_what_is_left_to_do(self, stage):
        stage.finished_vm()
        stage.double.acl[TOKEN] = [("/vms", {"VM.Audit"})]
        assert stage.build().rc == 0


class TestDevices:
    GPU = "node=pve1,path=0000:01:00.0,id=10de:26b9,iommugroup=15"

    def test_are_passed_through_by_their_mappings(self, stage):
        stage.double.mappings = {"l40s": [self.GPU, self.GPU.replace("01:00", "02:00")]}
        played = stage.build(vm_gpu_mappings=["l40s", "l40s"])
        assert played.rc == 0, played.output
        creation = stage.named(CREATE).values
        assert creation["machine"] == "q35"
        assert creation["bios"] == "ovmf"
        assert creation["balloon"] == "0"
        assert creation["hostpci0"] == creation["hostpci1"] == "mapping=l40s,pcie=1"
        assert creation["efidisk0"] == ("local-lvm:1,format=raw,efitype=4m,pre-enrolled-keys=False")
        assert "scsi1" in stage.vm.config
        assert "ide2" not in stage.vm.config

    def test_by_their_address_are_refused_with_the_reason(self, stage):
        said = problems(stage.build(vm_gpu_mappings=["0000:01:00.0"]))
        assert "0000:01:00.0 is a PCI address, and only a password session of root@pam" in said
        assert "make a resource mapping of it" in said
        assert stage.writes == []

    def test_that_cannot_be_had_are_refused(self, stage):
        stage.double.mappings = {
            "busy": [self.GPU],
            "elsewhere": [self.GPU.replace("pve1", "pve2")],
            "no-iommu": [self.GPU.replace(",iommugroup=15", "")],
            "gone": [self.GPU],
        }
        stage.double.mapping_faults["gone"] = "pci device '0000:01:00.0' not found"
        stage.double.add_vm(
            150, "other", status="running", config={"hostpci0": "mapping=busy,pcie=1"}
        )
        said = problems(
            stage.build(vm_gpu_mappings=["busy", "elsewhere", "no-iommu", "gone", "nowhere"])
        )
        assert "1 of busy wanted, but pve1 has 1 and running VMs hold 1: VMID 150 (other)" in said
        assert "the resource mapping elsewhere has no device on pve1" in said
        assert "a device of no-iommu on pve1 is in no IOMMU group" in said
        assert "the resource mapping gone is not valid on pve1: pci device" in said
        assert "there is no resource mapping nowhere that the token may use" in said
        assert stage.writes == []


class TestPreflight:
    def test_names_everything_that_is_wrong_in_one_message(self, stage):
        stage.double.storages["local"]["content"] = "iso,vztmpl"
        stage.double.storages["local-lvm"]["active"] = 0
        said = problems(
            stage.build(
                vm_name="Node_5",
                vm_bridge="vmbr7",
                vm_gateway="10.9.0.1",
                vm_ssh_keys=[],
                vm_user="",
            )
        )
        for words in (
            "the name 'Node_5' is no node name",
            "vm_gateway 10.9.0.1 is no address in 10.0.0.0/24",
            "vm_user is not set",
            "vm_ssh_keys is empty",
            (
                "the storage local takes no import: switch that content type on "
                "(pvesm set local --content iso,vztmpl,import)"
            ),
            "the storage local-lvm is not active on pve1",
            "pve1 has no bridge vmbr7: vm_bridge is one of vmbr0",
        ):
            assert words in said
        assert stage.writes == []

    def test_says_all_that_an_empty_inventory_lacks(self, stage):
        names = ("vm_api_host", "vm_api_user", "vm_api_token_id", "vm_api_token_secret")
        nothing = dict.fromkeys((*names, "vm_node", "vm_ip", "vm_user"), "")
        said = problems(stage.build(**nothing))
        assert all(f"{name} is not set" in said for name in nothing)

    def test_finds_a_missing_image(self, bare):
        said = problems(bare.build())
        assert f"the storage local on pve1 holds no image {NOBLE}" in said
        assert bare.writes == []

    def test_finds_an_image_without_a_sum(self, bare):
        said = problems(bare.build(vm_image_url=NOBLE_URL))
        assert "vm_image_sha256 is no SHA-256 sum" in said
        assert bare.writes == []

    def test_finds_a_disk_that_is_smaller_than_the_image(self, stage):
        said = problems(stage.build(vm_disk_gb=3))
        assert f"a disk of 3 GiB is smaller than the image {NOBLE}, which holds 3.5 GiB" in said
        assert stage.writes == []

    def test_finds_a_low_octet(self, stage):
        said = problems(stage.build(vm_ip="10.0.0.45/24"))
        assert "makes VMID 45, but Proxmox takes none below 100" in said
        assert stage.writes == []

    def test_finds_an_address_that_somebody_has(self, stage):
        said = problems(stage.build(vm_ip="127.0.0.145/8", vm_gateway="", vm_allow_live_ip=False))
        assert "127.0.0.145 answers already (port 22 is" in said
        assert stage.writes == []

    def test_finds_an_old_release_and_a_node_that_is_down(self, stage):
        stage.double.version = "8.1.4"
        stage.double.set_node_offline("pve1")
        said = problems(stage.build())
        assert "Proxmox VE 8.1.4 cannot import disk images for a token: 8.4 can" in said
        assert "the Proxmox node pve1 is offline" in said

    def test_can_be_collected_without_failing(self, stage):
        stage.double.add_vm(145, "db1", status="running")
        played = stage.build(role={"tasks_from": "plan"})
        assert played.rc == 0, played.output
        assert stage.writes == []
        facts = played["llmgw.fleet.vm : What would stop the build is known"]["ansible_facts"]
        assert len(facts["vm_problems"]) == 1
        assert "belongs to somebody else" in facts["vm_plan"]


class TestTheApi:
    def test_that_is_not_there_is_named(self, stage):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            port = nobody.getsockname()[1]
            said = problems(stage.build(vm_api_port=port))
        assert f"the Proxmox API at https://127.0.0.1:{port} cannot be reached" in said
        assert "are vm_api_host and vm_api_port right" in said

    def test_that_says_nothing_is_waited_for_a_bounded_time(self, stage):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            said = problems(stage.build(vm_api_port=port, vm_api_timeout_s=1))
        assert f"the Proxmox API at https://127.0.0.1:{port} did not answer within 1 s" in said

    def test_with_a_foreign_certificate_is_not_believed(self, stage, tmp_path):
        said = problems(stage.build(vm_ca_path=""))
        assert "shows a certificate that is not believed" in said
        assert "vm_insecure=true believes anybody" in said
        assert stage.double.log.calls == []

    def test_is_believed_when_told_so(self, stage):
        stage.finished_vm().status = "stopped"
        played = stage.build(vm_ca_path="", vm_insecure=True)
        assert played.rc == 0, played.output
        assert stage.writes == [START]

    def test_that_refuses_the_token_is_told_apart(self, stage):
        said = problems(stage.build(vm_api_token_secret="wrong"))
        assert f"refuses the token {TOKEN} (authentication failure)" in said
        assert "wrong" not in said


class TestTheSecret:
    def test_is_in_no_output_log_diff_result_process_list_or_facts_cache(self, stage, tmp_path):
        places = [tmp_path / "log", tmp_path / "facts"]
        environ = {
            "ANSIBLE_LOG_PATH": str(places[0]),
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(places[1]),
        }
        with Processes() as processes:
            built = stage.build("-vvvv", "--diff", environ=environ)
        told = (stage.controller.home / "told.jsonl").read_text()
        failed = stage.build("-vvvv", "--diff", environ=environ, vm_name="node06")
        assert (built.rc, failed.rc) == (0, 2)
        told += (stage.controller.home / "told.jsonl").read_text()
        facts = "".join(file.read_text() for file in places[1].glob("*"))
        seen = [built.output, failed.output, told, processes.text, places[0].read_text(), facts]
        assert "ansible-playbook" in processes.text
        assert [text for text in seen if SECRET in text] == []

    @pytest.mark.slow
    def test_is_in_nothing_that_a_job_keeps(self, stage, tmp_path):
        """ansible-runner writes the command, its environment and each event into files."""
        job = tmp_path / "job"
        for folder in ("project", "env", "inventory"):
            (job / folder).mkdir(parents=True)
        (job / "inventory" / "hosts").write_text("node05\n")
        (job / "env" / "extravars").write_text(json.dumps(stage.variables))
        (job / "project" / "book.yml").write_text(
            yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["llmgw.fleet.vm"]}])
        )
        done = stage.controller.run("ansible-runner", "run", str(job), "-p", "book.yml", "-vvv")
        assert done.returncode == 0, done.stdout + done.stderr
        kept = [file for file in (job / "artifacts").rglob("*") if file.is_file()]
        assert len(kept) > len(BUILD)
        assert [file for file in kept if SECRET in file.read_text(errors="replace")] == []
        assert SECRET not in done.stdout + done.stderr
