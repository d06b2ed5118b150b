"""Places of the tree are named by id, by a name that one alone has, or by their path."""

from __future__ import annotations

import pytest

from llmgw.domain import tenancy
from llmgw.domain.tenancy import Org, Project, Team, Tree
from llmgw.errors import Invalid, Unknown

TREE = Tree(
    orgs=(Org("o1", "acme", 1.0), Org("o2", "globex", 1.0)),
    teams=(Team("t1", "o1", "lab", 1.0), Team("t2", "o2", "lab", 1.0)),
    projects=(
        Project("p1", "t1", "chat", 1.0),
        Project("p2", "t2", "chat", 1.0),
        Project("p3", "t2", "batch", 1.0),
    ),
)


@pytest.mark.parametrize("reference", ["p3", "batch", "globex/lab/batch"])
def test_a_project_is_found_by_id_name_and_path(reference):
    assert TREE.project(reference).project_id == "p3"


def test_a_name_that_two_have_asks_which():
    with pytest.raises(Invalid, match="acme/lab/chat, globex/lab/chat"):
        TREE.project("chat")
    assert TREE.team("globex/lab").team_id == "t2"


def test_a_place_that_is_not_there_is_unknown():
    for ask in (TREE.org, TREE.team, TREE.project):
        with pytest.raises(Unknown, match="'nosuch'"):
            ask("nosuch")


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\nb", "x" * 101], ids=repr)
def test_a_name_can_be_written_again(name):
    with pytest.raises(Invalid):
        tenancy.check_name(name, what="a team")
    assert tenancy.check_name(" lab ", what="a team") == "lab"
