"""What a person does about its own account, with people in memory."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.accounts import signing_in as module
from llmgw.accounts.passwords import Cost, Passwords
from llmgw.accounts.signing_in import Policy, SigningIn
from llmgw.domain.people import UserState
from llmgw.errors import (
    BadCredentials,
    Exhausted,
    Invalid,
    LlmgwError,
    NoSession,
    NotAnEmail,
    NotApproved,
    SamePassword,
    Suspended,
    TooManyAttempts,
    Unavailable,
    WeakPassword,
)
from tests.fakes.people import FakePeople

EMAIL, PASSWORD, WRONG = "ann@example.org", "correct horse battery", "wrong horse battery"


class Works:
    """Counts how often a password was hashed or compared: that is what takes time."""

    def __init__(self):
        self.count = 0

    async def __call__(self, work):
        self.count += 1
        return work()


@pytest.fixture
def people():
    return FakePeople()


@pytest.fixture
def works():
    return Works()


@pytest.fixture
def accounts(people, works, clock):
    return SigningIn(
        users=people,
        sessions=people.sessions,
        passwords=Passwords(Cost(time=1, memory_kib=64, parallelism=1), aside=works),
        clock=clock,
        policy=Policy(max_attempts=3),
    )


@pytest.fixture
async def ann(accounts, people):
    """An approved person."""
    await accounts.sign_up(email=EMAIL, name="Ann", password=PASSWORD)
    (user,) = people.users.values()
    return await people.approve(user.user_id, project_id="p1", by="root", at=1.0)


async def refusals(accounts, *passwords, email=EMAIL):
    """What came of each try to sign in."""
    found = []
    for password in passwords:
        try:
            await accounts.sign_in(email=email, password=password)
        except LlmgwError as error:
            found.append(type(error))
        else:
            found.append(None)
    return found


async def test_a_new_account_waits_for_approval_with_its_address_in_lower_case(accounts, people):
    await accounts.sign_up(email=" Ann@Example.ORG ", name=" ", password=PASSWORD)
    (user,) = people.users.values()
    assert (user.email, user.name, user.state) == (EMAIL, EMAIL, UserState.PENDING)
    assert user.user_id.startswith("usr-")
    assert len(user.user_id) == 20
    with pytest.raises(NotApproved):
        await accounts.sign_in(email=EMAIL, password=PASSWORD)


async def test_a_taken_address_is_told_to_nobody(accounts, people, ann, works):
    works.count = 0
    await accounts.sign_up(email=EMAIL, name="Mallory", password="another password")
    assert people.users == {ann.user_id: ann}
    assert works.count == 1, "it took no less time than a new one"


async def test_only_so_many_accounts_wait(accounts, people):
    await accounts.sign_up(email=EMAIL, name="Ann", password=PASSWORD)
    (user,) = people.users.values()
    for number in range(module.MOST_WAITING - 1):
        other = dataclasses.replace(user, user_id=f"u{number}", email=f"{number}@example.org")
        people.users[other.user_id] = other
    with pytest.raises(Exhausted):
        await accounts.sign_up(email="bob@example.org", name="Bob", password=PASSWORD)
    await people.approve(user.user_id, project_id="p1", by="root", at=1.0)
    await accounts.sign_up(email="bob@example.org", name="Bob", password=PASSWORD)


async def test_an_approved_person_signs_in_and_is_known_by_its_session(accounts, ann, clock):
    opened = await accounts.sign_in(email="ANN@example.org", password=PASSWORD)
    assert opened.token
    assert opened.csrf
    session, user = await accounts.resolve(opened.token)
    assert (user.project_id, user.last_login_at) == ("p1", clock.wall())
    assert opened.token not in repr(session)


async def test_nobody_is_approved_into_no_project(accounts, people):
    await accounts.sign_up(email=EMAIL, name="Ann", password=PASSWORD)
    (user,) = people.users.values()
    with pytest.raises(Invalid):
        await people.approve(user.user_id, project_id="", by="root", at=1.0)


async def test_who_is_suspended_loses_its_sessions_and_gets_none(accounts, people, ann):
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    await people.set_state(ann.user_id, UserState.SUSPENDED)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)
    with pytest.raises(Suspended):
        await accounts.sign_in(email=EMAIL, password=PASSWORD)
    await people.set_state(ann.user_id, UserState.ACTIVE)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)


async def test_how_an_account_stands_is_told_only_with_its_password(accounts, people, ann):
    await people.set_state(ann.user_id, UserState.SUSPENDED)
    assert await refusals(accounts, WRONG, PASSWORD) == [BadCredentials, Suspended]


async def test_signing_out_ends_that_session_only(accounts, ann):
    one = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    other = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    await accounts.sign_out(one.token)
    await accounts.sign_out("")
    with pytest.raises(NoSession):
        await accounts.resolve(one.token)
    assert (await accounts.resolve(other.token))[1].user_id == ann.user_id


@pytest.mark.parametrize("token", ["", "never given"])
async def test_no_session_is_found_without_its_token(accounts, ann, token):
    with pytest.raises(NoSession):
        await accounts.resolve(token)


async def test_a_session_ends_with_its_time(accounts, ann, clock):
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    clock.advance(12 * 3600.0)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)


async def test_a_session_is_stamped_at_most_once_a_minute(accounts, people, ann, clock):
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    clock.advance(59.0)
    await accounts.resolve(opened.token)
    (session,) = people.sessions.open.values()
    assert session.last_seen_at == clock.wall() - 59.0
    clock.advance(1.0)
    await accounts.resolve(opened.token)
    (session,) = people.sessions.open.values()
    assert session.last_seen_at == clock.wall()


async def test_wrong_and_unknown_get_one_answer_and_take_as_long(accounts, ann, works):
    works.count = 0
    with pytest.raises(BadCredentials) as wrong:
        await accounts.sign_in(email=EMAIL, password=WRONG)
    with pytest.raises(BadCredentials) as unknown:
        await accounts.sign_in(email="bob@example.org", password=WRONG)
    assert str(wrong.value) == str(unknown.value)
    assert works.count == 2


async def test_an_account_without_password_is_like_none(accounts, people, ann):
    await people.set_password(ann.user_id, "")
    assert await refusals(accounts, PASSWORD) == [BadCredentials]


async def test_a_stored_hash_that_cannot_be_read_lets_nobody_in(accounts, people, ann):
    await people.set_password(ann.user_id, "$argon2id$")
    assert await refusals(accounts, PASSWORD) == [BadCredentials]


async def test_after_so_many_wrong_ones_the_right_password_is_refused_too(accounts, ann):
    tried = await refusals(accounts, WRONG, WRONG, WRONG, PASSWORD)
    assert tried == [BadCredentials] * 3 + [TooManyAttempts]


async def test_unknown_addresses_are_counted_too(accounts):
    tried = await refusals(accounts, *[WRONG] * 4, email="bob@example.org")
    assert tried[-1] is TooManyAttempts


async def test_the_right_password_clears_the_tries(accounts, ann):
    tried = await refusals(accounts, WRONG, WRONG, PASSWORD, WRONG, WRONG, WRONG)
    assert TooManyAttempts not in tried


async def test_a_form_is_believed_with_the_secret_of_its_own_session(accounts, ann):
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    other = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    session, _ = await accounts.resolve(opened.token)
    given = ["", "wrong", opened.csrf + "x", opened.csrf[:-1], other.csrf, opened.csrf]
    assert [module.check_csrf(session, text) for text in given] == [False] * 5 + [True]


@pytest.mark.parametrize("password", ["12345", "eleven char"])
async def test_no_account_is_made_with_a_short_password(accounts, people, password):
    with pytest.raises(WeakPassword):
        await accounts.sign_up(email=EMAIL, name="Ann", password=password)
    assert people.users == {}


@pytest.mark.parametrize(
    "email",
    [
        "",
        "ann",
        "ann@",
        "@example.org",
        "an n@example.org",
        "ann@example",
        "ann@exam@ple.org",
        "ann@b@",
        "<ann@example.org",
        'a"nn@example.org',
        "ann@exam\nple.org",
        "\u202egro.elpmaxe@nna.x",
        "ann\u200b@example.org",
        "a" * 250 + "@example.org",
    ],
)
async def test_what_is_no_address_is_refused(accounts, people, email):
    with pytest.raises(NotAnEmail):
        await accounts.sign_up(email=email, name="Ann", password=PASSWORD)
    assert people.users == {}


async def change(accounts, ann, current, wanted):
    await accounts.change_password(ann.user_id, current=current, wanted=wanted)


async def test_a_wrong_current_password_changes_nothing(accounts, ann):
    with pytest.raises(BadCredentials):
        await change(accounts, ann, WRONG, "an entirely new one")
    assert await refusals(accounts, PASSWORD) == [None]


async def test_a_changed_password_ends_every_session_and_the_old_one(accounts, people, ann):
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    await change(accounts, ann, PASSWORD, "an entirely new one")
    assert people.sessions.open == {}
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)
    assert await refusals(accounts, PASSWORD, "an entirely new one") == [BadCredentials, None]


@pytest.mark.parametrize(
    ("wanted", "refused"), [(PASSWORD, SamePassword), ("short", WeakPassword)], ids=str
)
async def test_a_password_is_not_changed_to_itself_or_a_short_one(accounts, ann, wanted, refused):
    with pytest.raises(refused):
        await change(accounts, ann, PASSWORD, wanted)
    assert await refusals(accounts, PASSWORD) == [None]


async def test_guessing_the_current_password_is_bounded_apart_from_signing_in(accounts, ann):
    for _ in range(3):
        with pytest.raises(BadCredentials):
            await change(accounts, ann, WRONG, "an entirely new one")
    with pytest.raises(TooManyAttempts):
        await change(accounts, ann, PASSWORD, "an entirely new one")
    assert await refusals(accounts, PASSWORD) == [None]


async def test_a_store_that_does_not_answer_lets_people_in_unnoted(accounts, people, ann):
    async def away(user_id, *, at):
        raise Unavailable("away")

    people.touch_login = away
    assert await refusals(accounts, PASSWORD) == [None]
