"""Hashes of passwords: strictly read, told apart, few at once."""

from __future__ import annotations

import asyncio

import argon2
import pytest

from llmgw.accounts.passwords import Cost, Passwords
from llmgw.errors import HashUnreadable, Unavailable, WeakPassword

CHEAP = Cost(time=1, memory_kib=64, parallelism=1)
RIGHT = "correct horse battery"


@pytest.fixture
def passwords():
    return Passwords(CHEAP)


async def test_a_hash_names_argon2id_and_its_cost_and_holds_no_plain_text():
    stored = await Passwords().hashed(RIGHT)
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert RIGHT not in stored


async def test_a_hash_is_right_for_its_password_alone(passwords):
    stored = await passwords.hashed(RIGHT)
    assert await passwords.is_right(RIGHT, stored)
    assert not await passwords.is_right(RIGHT + " ", stored)


async def test_other_programs_read_our_hashes_and_we_read_theirs(passwords):
    theirs = argon2.PasswordHasher(time_cost=2, memory_cost=256, parallelism=2, hash_len=24)
    assert theirs.verify(await passwords.hashed(RIGHT), RIGHT)
    assert await passwords.is_right(RIGHT, theirs.hash(RIGHT))


async def test_two_hashes_of_one_password_differ(passwords):
    assert await passwords.hashed(RIGHT) != await passwords.hashed(RIGHT)


async def test_hashes_of_an_earlier_cost_stay_valid(passwords):
    stored = await Passwords(Cost(time=2, memory_kib=128, parallelism=2)).hashed(RIGHT)
    assert await passwords.is_right(RIGHT, stored)


@pytest.mark.parametrize("password", ["", "12345", "eleven char", "ä" * 11, "x" * 1025])
async def test_short_and_endless_passwords_are_refused(passwords, password):
    with pytest.raises(WeakPassword):
        await passwords.hashed(password)


async def test_characters_are_counted_and_not_bytes(passwords):
    assert await passwords.is_right("ä" * 12, await passwords.hashed("ä" * 12))


async def test_an_endless_password_is_wrong_and_not_hashed_as_it_is(passwords):
    assert not await passwords.is_right("x" * 1_000_000, await passwords.hashed(RIGHT))


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "plain text",
        "$argon2id$",
        "$bcrypt$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=16$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=64,t=0,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=64,t=1,p=0$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=7,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=9999999,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$",
        "$argon2id$v=19$m=64,t=1,p=1$$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0x$aGFzaGhhc2hoYXNoaGFzaGhhc2gxx",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g\n",
    ],
)
async def test_what_is_no_such_hash_is_never_a_match(passwords, stored):
    with pytest.raises(HashUnreadable):
        await passwords.is_right(RIGHT, stored)


async def test_in_a_crowd_some_are_sent_away_and_only_few_are_at_work():
    at_work, most = 0, 0
    gate = asyncio.Event()

    async def slow(work):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await gate.wait()
        at_work -= 1
        return work()

    passwords = Passwords(CHEAP, aside=slow)
    asked = [asyncio.create_task(passwords.take_as_long(RIGHT)) for _ in range(70)]
    await asyncio.sleep(0)
    gate.set()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    refused = [one for one in ended if isinstance(one, Unavailable)]
    assert (len(refused), most) == (6, 2)
