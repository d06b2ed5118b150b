"""The clock that jumps, the hours in which people come, and the picture of it all."""

from __future__ import annotations

from itertools import takewhile
from xml.etree import ElementTree as ET

from llmgw.simulator import daylight, fleet_picture
from llmgw.simulator.agenda import Agenda
from llmgw.simulator.trial_books import Span

DAY_S = daylight.DAY_S
_SVG = "{http://www.w3.org/2000/svg}"


def test_acts_come_at_their_times_and_those_of_one_time_in_their_order():
    agenda, told = Agenda(), []

    def say(word):
        told.append((agenda.monotonic(), word))

    agenda.after(5.0, lambda: say("later"))
    agenda.after(2.0, lambda: say("first"))
    agenda.after(2.0, lambda: (say("second"), agenda.after(1.0, lambda: say("follows"))))
    agenda.advance(4.0)
    assert told == [(2.0, "first"), (2.0, "second"), (3.0, "follows")]
    assert (agenda.monotonic(), agenda.next_at) == (4.0, 5.0)


def test_people_come_in_the_afternoon_and_on_working_days():
    found = list(
        takewhile(
            lambda s: s.at_s < 14 * DAY_S,
            daylight.sessions(["m"], a_day=200.0, mean_s=600.0, seed=1),
        )
    )
    hours = [s.at_s % DAY_S / 3600 for s in found]
    afternoon, night = (
        sum(12 <= hour < 18 for hour in hours),
        sum(hour < 6 for hour in hours),
    )
    weekend = sum(s.at_s // DAY_S % 7 >= 5 for s in found)
    assert afternoon > 3 * night
    assert weekend < 0.2 * len(found)
    assert abs(len(found) - 200 * (10 + 4 * 0.35)) < 250


def test_the_first_model_is_asked_for_most_and_the_mean_is_as_asked():
    names = ["a", "b", "c", "d"]
    found = list(
        takewhile(
            lambda s: s.at_s < 5 * DAY_S,
            daylight.sessions(names, a_day=50.0, mean_s=600.0, seed=2),
        )
    )
    counts = [sum(s.model == name for s in found) for name in names]
    assert counts == sorted(counts, reverse=True)
    assert abs(len(found) - 5 * 50 * 4) < 150
    assert [s.at_s for s in found] == sorted(s.at_s for s in found)


def test_no_sessions_are_none_at_all():
    assert list(daylight.sessions(["a"], a_day=0.0, mean_s=600.0, seed=1)) == []


def spans():
    return [
        Span(for_s=10.0, there_s=80.0, held_s=40.0, away_s=5.0, lacking_s=20.0, starts=2, moves=1),
        Span(for_s=10.0, there_s=80.0, held_s=80.0, failures=3),
    ]


def test_the_picture_is_well_formed_and_has_every_panel_and_legend():
    drawn = ET.fromstring(fleet_picture.svg(spans(), title='a < b & "c"', for_s=20.0))
    texts = [element.text for element in drawn.iter(f"{_SVG}text")]
    assert texts[0] == 'a < b & "c"'
    for word in ("Utilisation", "What is missing", "What is done", "starts", "moves", "nodes away"):
        assert word in texts


def test_the_picture_shows_the_values_in_their_scale():
    drawn = ET.fromstring(fleet_picture.svg(spans(), title="t", for_s=20.0))
    line = next(drawn.iter(f"{_SVG}polyline")).attrib["points"].split()
    heights = [float(point.split(",")[1]) for point in line]
    top, bottom = 56.0, 206.0
    assert heights == [(top + bottom) / 2, top]


def test_a_picture_of_nothing_is_a_picture():
    assert ET.fromstring(fleet_picture.svg([], title="t", for_s=1.0)).tag == f"{_SVG}svg"
