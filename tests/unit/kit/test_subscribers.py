"""Everybody who wants to be told is told, in order, and nobody who has left."""

from __future__ import annotations

from llmgw.kit.subscribers import Subscribers


def tell(subscribers):
    for callback in subscribers:
        callback()


def test_all_are_told_in_the_order_in_which_they_came():
    subscribers, told = Subscribers(), []
    subscribers.add(lambda: told.append("first"))
    subscribers.add(lambda: told.append("second"))
    tell(subscribers)
    assert told == ["first", "second"]


def test_who_has_left_is_told_nothing_and_may_leave_twice():
    subscribers, told = Subscribers(), []
    leave = subscribers.add(lambda: told.append("first"))
    subscribers.add(lambda: told.append("second"))
    leave()
    leave()
    tell(subscribers)
    assert told == ["second"]


def test_who_leaves_while_all_are_told_costs_nobody_his_turn():
    subscribers, told = Subscribers(), []

    def once():
        told.append("once")
        leave()

    leave = subscribers.add(once)
    subscribers.add(lambda: told.append("always"))
    tell(subscribers)
    tell(subscribers)
    assert told == ["once", "always", "always"]
