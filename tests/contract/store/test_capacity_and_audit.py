"""Measured capacity and the audit log, on each database."""

from __future__ import annotations

import pytest

from llmgw.domain.stored import AuditEntry, AuditFilter, Capacity


def measured(model="chat", profile="h100", **result):
    return Capacity(
        model=model,
        profile=profile,
        result={"concurrency": 32, **result},
        slo={"ttft_ms": 500},
        measured_at=1_764_500_000.125,
    )


def entry(number, **changed):
    given = {
        "at": float(number),
        "actor": "ann",
        "origin": "api",
        "action": "node.drain",
        "target": f"n{number}",
        "outcome": "done",
    }
    return AuditEntry(**{**given, **changed})


@pytest.fixture
def kept(store):
    async def keep(*entries):
        for one in entries:
            await store.audit.append(one)

    return keep


async def test_a_measurement_replaces_the_one_of_the_same_profile_only(store):
    await store.capacity.put(measured())
    await store.capacity.put(measured(profile="cpu"))
    await store.capacity.put(measured(tokens_per_s=900.5))
    assert await store.capacity.all() == [measured(profile="cpu"), measured(tokens_per_s=900.5)]


async def test_measurements_go_with_their_model(store):
    for one in (measured(), measured(profile="cpu"), measured("other")):
        await store.capacity.put(one)
    assert await store.capacity.remove("chat") == 2
    assert await store.capacity.all() == [measured("other")]


async def test_an_entry_is_read_as_it_was_written_and_has_a_number(store, kept):
    given = entry(
        1, before={"min": 1}, after={"min": 0}, outcome="denied", request_id="req-1", actor="bob"
    )
    await kept(given)
    (read,) = await store.audit.page()
    assert read.entry_id > 0
    assert (read.before, read.after) == ({"min": 1}, {"min": 0})
    assert (read.outcome, read.request_id, read.actor) == ("denied", "req-1", "bob")


async def test_what_was_not_known_before_and_after_is_absent(store, kept):
    await kept(entry(1))
    (read,) = await store.audit.page()
    assert (read.before, read.after) == (None, None)


async def test_pages_go_back_from_the_newest_without_gap_or_double(store, kept):
    await kept(*(entry(number) for number in range(1, 8)))
    seen, last = [], None
    while page := await store.audit.page(AuditFilter(before_id=last), limit=3):
        seen += [one.target for one in page]
        last = page[-1].entry_id
    assert seen == [f"n{number}" for number in range(7, 0, -1)]


async def test_entries_are_found_by_who_what_where_and_since_when(store, kept):
    await kept(entry(1), entry(2, actor="bob"), entry(3, action="model.add"), entry(4))
    found = AuditFilter(actor="ann", action="node.drain", since=2.0)
    assert [one.target for one in await store.audit.page(found)] == ["n4"]
    assert [one.at for one in await store.audit.page(AuditFilter(target="n2"))] == [2.0]


async def test_what_is_newer_than_the_last_seen_is_found(store, kept):
    await kept(*(entry(number) for number in range(1, 4)))
    (_, second, _) = await store.audit.page()
    await kept(entry(4))
    newer = await store.audit.page(AuditFilter(after_id=second.entry_id))
    assert [one.target for one in newer] == ["n4", "n3"]


async def test_only_so_many_entries_are_kept(store, kept):
    await kept(*(entry(number) for number in range(1, 8)))
    assert await store.audit.prune(before=0.0, keep=3) == 4
    assert [one.target for one in await store.audit.page()] == ["n7", "n6", "n5"]
    assert await store.audit.prune(before=0.0, keep=3) == 0


async def test_old_entries_go_and_numbers_are_never_given_again(store, kept):
    await kept(entry(1), entry(2))
    (newest, _) = await store.audit.page()
    assert await store.audit.prune(before=9.0) == 2
    await kept(entry(3))
    (after,) = await store.audit.page()
    assert after.entry_id > newest.entry_id
