"""Login elsewhere against a provider that signs real tokens."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jwk, jwt

from llmgw.accounts.issuer import Client, Issuer
from llmgw.accounts.oidc import Admission, OidcLogin
from llmgw.domain.people import UserState
from llmgw.errors import Denied, EmailTaken, LoginRefused, NotAnEmail, Unreachable
from tests.fakes.login_provider import SECRET, LoginProvider
from tests.fakes.people import FakePeople

BACK = "http://gateway.example/login/oidc/callback"


@pytest.fixture
async def provider(clock):
    made = LoginProvider()
    made.now = clock.wall
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def people():
    return FakePeople()


@pytest.fixture
async def login(provider, people, clock):
    """Makes logins that share one client; mapped groups are the argument."""
    client = Client(issuer=provider.url, client_id="llm gw", secret=lambda: SECRET)
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:

        def make(**projects):
            return OidcLogin(
                client,
                issuer=Issuer(client, http=http, clock=clock),
                admission=Admission(projects=projects),
                users=people,
                clock=clock,
            )

        yield make


async def go(provider, login, *, cookie=None, state=None):
    """One browser's whole way; who came back."""
    away = await login.begin(redirect_uri=BACK)
    back = dict(parse_qsl(urlsplit(provider.authorize(away.url)).query))
    return await login.finish(
        state=back["state"] if state is None else state,
        code=back["code"],
        cookie=away.cookie if cookie is None else cookie,
    )


async def test_a_group_lets_a_newcomer_into_its_project_at_once(provider, login, people):
    user = await go(provider, login(staff="p2", research="p1", everybody="p2"))
    assert (user.email, user.state, user.project_id) == ("ann@example.org", UserState.ACTIVE, "p1")
    assert people.users == {user.user_id: user}
    (entry,) = people.entries
    assert (entry.action, entry.target, entry.after) == (
        "user.create",
        user.user_id,
        {"project_id": "p1"},
    )


async def test_without_mapped_groups_newcomers_wait_for_approval(provider, login):
    user = await go(provider, login())
    assert (user.state, user.project_id, user.approved_at) == (UserState.PENDING, "", None)


async def test_who_is_in_no_mapped_group_is_refused(provider, login, people):
    with pytest.raises(Denied):
        await go(provider, login(staff="p1"))
    assert people.users == {}


@pytest.mark.parametrize("groups", [None, 5, {"research": 1}, "other", []], ids=str)
async def test_groups_of_another_shape_are_no_groups(provider, login, groups):
    provider.person["groups"] = groups
    with pytest.raises(Denied):
        await go(provider, login(research="p1"))


async def test_a_person_is_known_again_by_its_subject_and_not_its_address(provider, login, people):
    first = await go(provider, login(research="p1"))
    provider.person["email"] = "ann.new@example.org"
    assert await go(provider, login(research="p1")) == first
    assert len(people.users) == 1


async def test_groups_are_looked_at_with_each_login(provider, login):
    first = await go(provider, login())
    approved = await go(provider, login(research="p1"))
    moved = await go(provider, login(research="p2"))
    assert [(u.user_id, u.state, u.project_id) for u in (first, approved, moved)] == [
        (first.user_id, UserState.PENDING, ""),
        (first.user_id, UserState.ACTIVE, "p1"),
        (first.user_id, UserState.ACTIVE, "p2"),
    ]
    provider.person["groups"] = []
    with pytest.raises(Denied):
        await go(provider, login(research="p2"))


async def test_nobody_gets_an_account_of_somebody_else_by_its_address(provider, login, people):
    await go(provider, login(research="p1"))
    provider.person["sub"] = "subject-2"
    with pytest.raises(EmailTaken):
        await go(provider, login(research="p1"))


@pytest.mark.parametrize(
    ("claims", "refused"),
    [
        ({"email_verified": False}, Denied),
        ({"email_verified": None}, Denied),
        ({"email": None}, NotAnEmail),
    ],
    ids=["not verified", "not said", "no address"],
)
async def test_an_address_that_nobody_vouches_for_makes_no_account(
    provider, login, people, claims, refused
):
    provider.changed = claims
    with pytest.raises(refused):
        await go(provider, login(research="p1"))
    assert people.users == {}


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "http://other.example"},
        {"aud": "another client"},
        {"aud": ["llm gw", "another client"]},
        {"aud": ["llm gw", "another client"], "azp": "another client"},
        {"azp": "another client"},
        {"nonce": "of another login"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"iat": 1},
        {"iat": 9_999_999_999},
        {"iat": "now"},
        {"sub": None},
        {"sub": 5},
    ],
    ids=str,
)
async def test_a_token_for_somebody_else_or_another_time_is_refused(
    provider, login, people, claims
):
    provider.changed = claims
    with pytest.raises(LoginRefused):
        await go(provider, login(research="p1"))
    assert people.users == {}


async def test_a_token_for_several_of_which_we_are_the_party_is_taken(provider, login):
    provider.changed = {"aud": ["another client", "llm gw"], "azp": "llm gw"}
    assert (await go(provider, login(research="p1"))).project_id == "p1"


async def test_new_keys_of_the_provider_are_found_though_not_at_any_price(provider, login, clock):
    one = login(research="p1")
    await go(provider, one)
    provider.rotate(kind="RSA")
    clock.advance(11.0)
    await go(provider, one)
    assert provider.asked.count("/keys") == 2
    listed = provider.keys
    provider.rotate()
    provider.keys = listed  # signs with a key that it never lists
    for _ in range(3):
        with pytest.raises(LoginRefused):
            await go(provider, one)
    assert provider.asked.count("/keys") == 2


async def test_a_token_that_another_has_signed_is_refused(provider, login):
    listed = provider.keys
    provider.rotate()
    provider.key = jwk.ECKey.import_key(
        provider.key.as_dict(private=True) | {"kid": listed[0]["kid"]}
    )
    provider.keys = listed
    with pytest.raises(LoginRefused):
        await go(provider, login(research="p1"))


@pytest.mark.parametrize("kind", ["none", "HS256 by the public key", "cut off", "no token"])
async def test_a_token_without_a_real_signature_is_refused(provider, login, kind):
    genuine = provider.token

    def forged(asked):
        head, body, signature = genuine(asked).split(".")
        if kind == "none":
            return f"eyJhbGciOiJub25lIn0.{body}."
        if kind == "cut off":
            return f"{head}.{body}.{signature[:-4]}"
        if kind == "no token":
            return "token"
        public = provider.key.as_pem(private=False)
        claims = jwt.decode(f"{head}.{body}.{signature}", provider.key).claims
        return jwt.encode({"alg": "HS256"}, claims, jwk.OctKey.import_key(public.hex()))

    provider.token = forged
    with pytest.raises(LoginRefused):
        await go(provider, login(research="p1"))


async def test_a_browser_that_did_not_begin_the_login_does_not_end_it(provider, login):
    one = login(research="p1")
    other = (await one.begin(redirect_uri=BACK)).cookie
    for given in (
        {"cookie": other},
        {"cookie": ""},
        {"cookie": "AAAA"},
        {"cookie": "é"},
        {"state": ""},
    ):
        with pytest.raises(LoginRefused):
            await go(provider, one, **given)


async def test_a_login_is_finished_within_its_time_and_once(provider, login, clock):
    one = login(research="p1")
    away = await one.begin(redirect_uri=BACK)
    back = dict(parse_qsl(urlsplit(provider.authorize(away.url)).query))
    await one.finish(**back, cookie=away.cookie)
    with pytest.raises(LoginRefused):
        await one.finish(**back, cookie=away.cookie)
    clock.advance(601.0)
    with pytest.raises(LoginRefused):
        await one.finish(**back, cookie=away.cookie)


async def test_another_server_finishes_what_one_has_begun(provider, login):
    away = await login().begin(redirect_uri=BACK)
    back = dict(parse_qsl(urlsplit(provider.authorize(away.url)).query))
    user = await login(research="p1").finish(**back, cookie=away.cookie)
    assert user.project_id == "p1"


async def test_a_provider_that_wants_the_secret_in_the_form_gets_it_there(provider, login):
    provider.ways = ["client_secret_post"]
    assert (await go(provider, login(research="p1"))).project_id == "p1"


async def test_a_provider_that_is_away_is_said_to_be(provider, login):
    provider.is_away = True
    with pytest.raises(Unreachable):
        await login().begin(redirect_uri=BACK)
    await provider.close()
    with pytest.raises(Unreachable):
        await login().begin(redirect_uri=BACK)


async def test_a_provider_that_calls_itself_otherwise_is_not_believed(provider, login):
    url, provider.url = provider.url, "http://other.example"
    assert url != provider.url
    with pytest.raises(Unreachable, match=r"auth\.oidc\.issuer"):
        await login().begin(redirect_uri=BACK)
