"""What roles decide is decided from what is there, so that an interrupted run is made good.

Single files of tasks, played on this machine with other places given; the stories play all of it.
"""

from __future__ import annotations

import os

import pytest
import yaml
from playing import COLLECTIONS, ROOT

ROLES = COLLECTIONS / "ansible_collections" / "llmgw" / "fleet" / "roles"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBserial0001\nrest\n-----END CERTIFICATE-----\n"

READ = "llmgw.fleet.certs : The system has read it"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="hands files to root")


def play(controller, role, tasks, *, words=(), **variables):
    """Play one file of a role's tasks; what is given wins over the role's own variables."""
    include = {"name": f"llmgw.fleet.{role}", "tasks_from": tasks}
    return controller.play(
        {"name": "Role", "ansible.builtin.include_role": include, "vars": variables},
        {
            "name": "After",
            "ansible.builtin.debug": {
                "msg": {
                    "problems": "{{ control_problems | default(agent_problems | default([])) }}",
                    "listeners": "{{ control_listeners | default({}) }}",
                }
            },
        },
        words=words,
    )


class TestTheAuthorityOfASystem:
    """Whether other programs believe the authority."""

    @pytest.fixture
    def trust(self, tmp_path):
        """A system that reads what is put into its folder when it is told to."""
        ca, file, bundle = tmp_path / "ca.pem", tmp_path / "anchor.pem", tmp_path / "bundle.pem"
        ca.write_text(CERTIFICATE)
        bundle.write_text("-----BEGIN CERTIFICATE-----\nMIIBother\n-----END CERTIFICATE-----\n")
        return {
            "certs_paths": {"ca": str(ca)},
            "_certs_trust": {
                "file": str(file),
                "bundle": str(bundle),
                "command": f"dd if={file} of={bundle} oflag=append conv=notrunc",
            },
            "__certs_asked": {"needed": False},
        }

    @as_root
    def test_is_read_once(self, controller, trust):
        assert play(controller, "certs", "trust", **trust)[READ].changed
        again = play(controller, "certs", "trust", **trust)
        assert again[READ].outcome == "skipped"

    @as_root
    def test_is_read_also_after_a_run_that_ended_before(self, controller, trust, tmp_path):
        (tmp_path / "anchor.pem").write_text(CERTIFICATE)
        assert play(controller, "certs", "trust", **trust)[READ].changed

    @as_root
    def test_that_cannot_be_read_is_said_and_ends_nothing(self, controller, trust):
        trust["_certs_trust"]["command"] = "false"
        played = play(controller, "certs", "trust", **trust)
        assert played.rc == 0, played.output
        assert "llmgw itself does not need it" in played["llmgw.fleet.certs : It does not"]["msg"]


class TestSettingsOfAControlPlane:
    """What is done with a server.yaml that is there."""

    def test_that_a_person_wrote_say_where_it_listens(self, controller):
        played = play(controller, "control", "look", _control_text="listen: ':8081'\n")
        after = played["After"]["msg"]
        assert after["listeners"]["listen"] == {"port": 8081, "dial": "127.0.0.1:8081"}
        assert after["problems"] == []

    def test_that_a_person_wrote_are_not_overwritten(self, controller):
        declared = {"control_models": [{"name": "m"}], "_control_text": "listen: ':8081'\n"}
        (said,) = play(controller, "control", "look", **declared)["After"]["msg"]["problems"]
        assert "was not written from the inventory" in said
        assert "-e control_config_takeover=true" in said

    def test_that_a_person_wrote_are_taken_over_on_a_word_of_the_command_line(self, controller):
        declared = {"control_models": [{"name": "m"}], "_control_text": "listen: ':8081'\n"}
        words = ("-e", "control_config_takeover=true")
        played = play(controller, "control", "look", words=words, **declared)
        assert played["After"]["msg"]["problems"] == []
        assert played["After"]["msg"]["listeners"]["listen"]["port"] == 8080

    def test_from_the_inventory_are_written_again(self, controller):
        mark = "# Written by llmgw.fleet from the inventory: change it there."
        declared = {
            "control_config": {"listen": ":8082"},
            "_control_text": f"{mark}\nlisten: ':1'\n",
        }
        after = play(controller, "control", "look", **declared)["After"]["msg"]
        assert after["problems"] == []
        assert after["listeners"]["listen"]["port"] == 8082


class TestSettingsOfAnAgent:
    """What the inventory says of a node."""

    def test_that_cannot_be_meant_are_known_before_a_machine_is_there(self, controller):
        fabrics = ["ib0:mlx5_0", "ib1:mlx5_0"]
        played = play(controller, "agent", "look", agent_node_id="Node_5", agent_fabrics=fabrics)
        said = "\n".join(played["After"]["msg"]["problems"])
        assert "localhost: 'Node_5' is no node name" in said
        assert "localhost: its agent has no control plane to dial" in said
        assert "localhost: the adapter mlx5_0 is in the fabrics ib0 and ib1" in said


def files_of_tasks():
    return [path for folder in (ROLES, ROOT / "roles") for path in folder.glob("*/tasks/*.yml")]


def includes(tasks):
    """Each task that includes others while a play runs, within blocks too."""
    for task in tasks or []:
        for part in ("block", "rescue", "always"):
            yield from includes(task.get(part))
        for word in ("include_role", "include_tasks"):
            if f"ansible.builtin.{word}" in task:
                yield task[f"ansible.builtin.{word}"]


PEOPLE = ("There is a first organisation, team and project", "There is an administrator")


def test_the_first_administrator_is_made_once_and_its_password_shown_once(
    controller, llmgw, tmp_path
):
    program = f"env LLMGW_AUTH__STORE={tmp_path / 'store.db'} {llmgw}"
    given = {"control_admin": "ann@example.org", "_control_llmgw": program}
    made, again = (play(controller, "control", "people", **given) for _ in range(2))
    assert "ann@example.org signs in with" in made.output
    assert "signs in with" not in again.output
    assert [
        [play.tasks[f"llmgw.fleet.control : {task}"].changed for task in PEOPLE]
        for play in (made, again)
    ] == [[True, True], [False, False]]


@pytest.mark.parametrize("path", files_of_tasks(), ids=lambda p: f"{p.parts[-3]}-{p.stem}")
def test_what_a_stage_includes_is_played_with_the_stage(path):
    """With ``--tags`` an included task is left out unless it is told that it belongs to it."""
    for included in includes(yaml.safe_load(path.read_text())):
        assert included.get("apply", {}).get("tags"), included


@pytest.mark.parametrize("role", sorted(ROLES.iterdir()), ids=lambda role: role.name)
def test_a_role_that_is_asked_to_look_writes_nothing_first(role):
    """A dependency is played before any file of tasks, those that only look included."""
    about = yaml.safe_load((role / "meta" / "main.yml").read_text())
    assert about["dependencies"] == []
