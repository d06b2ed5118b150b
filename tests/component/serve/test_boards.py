"""Rows and slots of a host's board, and who scrapes."""

import pytest

from llmgw.domain.routes import Endpoint, RouteTable
from llmgw.errors import Invalid, Unavailable
from llmgw.gateway import board_layout
from llmgw.gateway.board import LoadBoard
from llmgw.serve.boards import HostBoard
from llmgw.serve.publishing import PublisherLock
from tests.fakes import log_ear
from tests.fakes.clock import FakeClock

_URL = "http://127.0.0.1:1"


def table(*ids):
    return RouteTable(
        number=1, endpoints=tuple(Endpoint(endpoint_id=one, url=_URL, models=("m",)) for one in ids)
    )


def worker(board, row):
    return LoadBoard.attached(board.path, row=row, now=FakeClock().monotonic)


@pytest.fixture
def board(tmp_path):
    board = HostBoard.opened(tmp_path)
    board.list(table("a"))
    return board


def inflight(board):
    return {name: seen.inflight for name, seen in board.traffic().items()}


def test_what_a_dead_worker_had_under_way_is_under_way_no_more(board):
    rows = [board.seat_row(), board.seat_row()]
    dying, living = (worker(board, row).seat("a", _URL) for row in rows)
    for _ in range(50):
        dying.take()
    living.take()
    assert inflight(board) == {"a": 51}
    board.free_row(rows[0])
    assert (inflight(board), living.inflight, living.reserved) == ({"a": 1}, 1, 1)


def test_a_successor_gets_the_row_that_became_free(board):
    rows = [board.seat_row() for _ in range(3)]
    assert rows == [0, 1, 2]
    board.free_row(1)
    assert [board.seat_row(), board.seat_row()] == [1, 3]


def test_more_workers_than_rows_are_refused(board):
    for _ in range(board_layout.ROWS):
        board.seat_row()
    with pytest.raises(Unavailable, match="64 rows"):
        board.seat_row()


def test_the_next_server_keeps_what_living_workers_count_and_drops_the_rest(tmp_path, board):
    rows = [board.seat_row(), board.seat_row()]
    living, dead = (worker(board, row).seat("a", _URL) for row in rows)
    handle = living.take()
    dead.take()
    following = HostBoard.opened(tmp_path, rows=[rows[0]])
    following.list(table("a", "b"))
    assert inflight(following) == {"a": 1, "b": 0}
    assert following.seat_row() == rows[1]
    living.give_back(handle)
    assert inflight(following) == {"a": 0, "b": 0}


def test_without_living_workers_the_board_begins_anew(tmp_path, board):
    worker(board, board.seat_row()).seat("a", _URL).take()
    following = HostBoard.opened(tmp_path)
    following.list(table("a"))
    assert inflight(following) == {"a": 0}


def test_a_board_that_somebody_removed_is_made_anew(tmp_path, board):
    row = board.seat_row()
    board.path.unlink()
    following = HostBoard.opened(tmp_path, rows=[row])
    following.list(table("a"))
    assert inflight(following) == {"a": 0}


def test_boards_of_other_layouts_are_removed(tmp_path):
    (tmp_path / "board-v0").mkdir()
    (tmp_path / "board-v0" / "load").write_bytes(b"old")
    HostBoard.opened(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == [
        board_layout.path(tmp_path).parent.name
    ]


def test_more_endpoints_than_slots_are_said_once(tmp_path, board):
    many = table(*(f"e{n}" for n in range(board_layout.SLOTS + 1)))
    with log_ear.heard("llmgw.serve.boards") as events:
        board.list(many)
        board.list(many)
    assert [event for event, _ in events] == ["board_full"]
    assert len(board.traffic()) == board_layout.SLOTS - 1, "one is kept for the one that left"


def test_a_folder_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(Invalid, match="cannot make the board"):
        HostBoard.opened(tmp_path / "run")


def test_one_worker_scrapes_and_another_follows_when_it_ends(tmp_path):
    first, second = PublisherLock(tmp_path), PublisherLock(tmp_path)
    assert [first(), second(), first()] == [True, False, True]
    first.release()
    assert [second(), first()] == [True, False]
    second.release()
    second.release()
