"""The last route table on disk."""

from __future__ import annotations

import pytest

from llmgw.domain.routes import Endpoint, RoutedModel, RouteTable
from llmgw.errors import Invalid
from llmgw.serve.route_file import RouteFile


def table(number):
    return RouteTable(
        number=number,
        endpoints=(Endpoint(endpoint_id="a", url="http://h:1", models=("m",), api_key="k"),),
        models={"m": RoutedModel(name="m")},
        canonical={"m": "m"},
    )


async def test_the_newest_table_is_there_after_a_restart(tmp_path):
    file = RouteFile(tmp_path / "state")
    for number in range(50):
        file.keep(table(number))
    await file.close()
    assert RouteFile(tmp_path / "state").load() == table(49)
    assert len(list((tmp_path / "state").iterdir())) == 1


async def test_only_the_servers_user_reads_it_for_it_may_hold_keys(tmp_path):
    file = RouteFile(tmp_path / "state")
    file.keep(table(1))
    await file.close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "routes.json").stat().st_mode & 0o777 == 0o600


def test_without_a_table_there_is_none(tmp_path):
    assert RouteFile(tmp_path).load() is None


@pytest.mark.parametrize("text", ["", "{", '{"number": "many"}'])
def test_what_cannot_be_understood_is_as_if_it_were_not_there(tmp_path, text):
    (tmp_path / "routes.json").write_text(text)
    assert RouteFile(tmp_path).load() is None


def test_a_folder_that_cannot_be_made_is_a_mistake_of_the_settings(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="state_dir"):
        RouteFile(tmp_path / "file" / "state")
