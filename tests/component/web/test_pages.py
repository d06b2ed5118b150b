"""The bare pages through their application, over a real store."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

import httpx
import pytest

from llmgw.accounts import sealing
from llmgw.accounts.issuer import Client, Issuer
from llmgw.accounts.oidc import Admission, OidcLogin
from llmgw.domain.people import UserState, digest
from llmgw.errors import Denied, Invalid, Unavailable
from llmgw.web import entry_pages
from tests.fakes import pages, tenants
from tests.fakes.login_provider import SECRET, LoginProvider
from tests.fakes.pages import PASSWORD, Browser

STATUSES = {Denied: 403, Invalid: 400, Unavailable: 503}

EMAIL = "ann@example.org"
_SECRET = re.compile(r'<code id="key">(sk-[\w-]+)</code>')


@pytest.fixture
def store(planted):
    return planted


@pytest.fixture
def app(store, clock):
    return pages.make_app(store, clock)


@pytest.fixture
async def browser(app):
    made = Browser(app)
    yield made
    await made.client.aclose()


async def approve(store, email=EMAIL):
    user = await store.people.by_email(email)
    return await store.people.approve(user.user_id, project_id="p1", by="root", at=1.0)


@pytest.fixture
async def ann(browser, store):
    """Signed up, approved and signed in, all through the pages but the approval."""
    await browser.send("/signup", email=EMAIL, name="Ann <b>", password=PASSWORD)
    user = await approve(store)
    await browser.sign_in()
    return user


async def test_who_asks_for_an_account_waits_until_it_is_approved(browser, store):
    asked = await browser.send("/signup", email="Ann@Example.org", name="Ann", password=PASSWORD)
    assert (asked.status_code, "waits for an administrator" in asked.text) == (200, True)
    refused = await browser.sign_in()
    assert (refused.status_code, "administrator to approve" in refused.text) == (403, True)
    assert "set-cookie" not in refused.headers
    await approve(store)
    entered = await browser.sign_in()
    assert (entered.status_code, entered.headers["location"]) == (303, "/profile")


async def test_a_taken_address_looks_like_a_new_one(browser, ann):
    again = await browser.send("/signup", email=EMAIL, name="Mallory", password="another password")
    new = await browser.send("/signup", email="bob@example.org", name="Bob", password=PASSWORD)
    assert (again.status_code, again.text) == (new.status_code, new.text)


@pytest.mark.parametrize(
    ("email", "password", "told"),
    [("ann", PASSWORD, "not an email"), (EMAIL, "short", "at least 12")],
    ids=["address", "password"],
)
async def test_a_form_that_is_wrong_is_shown_again_with_what_was_written(
    browser, email, password, told
):
    shown = await browser.send("/signup", email=email, name="Ann", password=password)
    assert (shown.status_code, told in shown.text) == (400, True)
    assert f'value="{email}"' in shown.text
    assert password not in shown.text


async def test_a_closed_sign_up_is_not_there(store, clock):
    browser = Browser(pages.make_app(store, clock, is_signup_open=False))
    assert (await browser.get("/signup")).status_code == 404
    asked = await browser.send("/signup", email=EMAIL, name="Ann", password=PASSWORD)
    assert asked.status_code == 404
    assert await store.people.all() == []
    assert "/signup" not in (await browser.get("/login")).text


async def test_wrong_passwords_are_refused_and_then_not_looked_at(browser, ann):
    tried = [await browser.sign_in(password="wrong") for _ in range(4)]
    assert [one.status_code for one in tried] == [401, 401, 401, 429]
    assert (await browser.sign_in()).status_code == 429


async def test_cookies_are_seen_by_no_script_and_no_other_site(browser, ann):
    entered = await browser.sign_in()
    set_cookies = entered.headers.get_list("set-cookie")
    assert [one.partition("=")[0] for one in set_cookies] == ["llmgw_session", "llmgw_csrf"]
    for one in set_cookies:
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Max-Age=43200"} <= set(one.split("; "))


async def test_behind_tls_cookies_are_kept_to_it_and_to_this_host(store, clock, ann):
    app = pages.make_app(store, clock, public_url="https://llm.example")
    entered = await Browser(app, url="https://llm.example").sign_in()
    for one in entered.headers.get_list("set-cookie"):
        assert one.startswith("__Host-llmgw_")
        assert "Secure" in one.split("; ")


async def test_signing_out_ends_the_session_also_for_who_kept_its_cookie(browser, ann):
    kept = dict(browser.client.cookies)
    out = await browser.fill("/logout")
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    browser.client.cookies.update(kept)
    again = await browser.get("/profile")
    assert (again.status_code, again.headers["location"]) == (303, "/login")


async def test_signing_in_again_ends_the_session_before(browser, ann):
    kept = dict(browser.client.cookies)
    await browser.sign_in()
    browser.client.cookies.update(kept)
    assert (await browser.get("/profile")).status_code == 303


async def test_a_profile_is_shown_to_its_person_and_what_it_wrote_is_only_text(browser, ann):
    shown = await browser.get("/profile")
    assert "Ann &lt;b&gt;" in shown.text
    assert "acme/research/chat" in shown.text
    assert (await Browser(browser.client._transport.app).get("/profile")).status_code == 303


async def test_a_key_is_shown_once_and_opens_with_its_owner_and_project(browser, ann, store, clock):
    made = await browser.fill("/profile/keys", name="laptop", days="30")
    secret = _SECRET.search(made.text)[1]
    assert f"{pages.URL}/v1/models" in made.text
    chain = await store.keys.chain(digest(secret), now=clock.wall())
    assert (chain.key.user_id, chain.key.project_id) == (ann.user_id, "p1")
    assert chain.key.expires_at == clock.wall() + 30 * 86400
    listed = (await browser.get("/profile")).text
    assert secret not in listed
    assert secret[:11] in listed


@pytest.mark.parametrize(
    "fields", [{"name": ""}, {"name": "x", "days": "0"}, {"name": "x", "days": "soon"}]
)
async def test_a_key_that_cannot_be_is_not_made(browser, ann, store, fields):
    assert (await browser.fill("/profile/keys", **fields)).status_code == 400
    assert await store.keys.all() == []


async def test_nobody_has_keys_without_end(browser, ann, store):
    for number in range(50):
        await store.keys.add(tenants.key(f"k{number}", user_id=ann.user_id))
    assert (await browser.fill("/profile/keys", name="one more")).status_code == 429
    await browser.fill("/profile/keys/k0/revoke")
    assert (await browser.fill("/profile/keys", name="one more")).status_code == 200


async def test_people_revoke_their_own_keys_and_no_others(browser, ann, store, clock):
    await store.keys.add(tenants.key("mine", user_id=ann.user_id))
    await store.keys.add(tenants.key("anothers"))
    assert (await browser.fill("/profile/keys/mine/revoke")).status_code == 303
    assert (await browser.fill("/profile/keys/anothers/revoke")).status_code == 404
    revoked = {key.key_id: key.revoked_at for key in await store.keys.all()}
    assert revoked == {"mine": clock.wall(), "anothers": None}
    newest = (await store.audit.page())[0]
    assert (newest.actor, newest.origin, newest.action) == (EMAIL, "page", "key.revoke")


async def test_a_changed_password_signs_out_everywhere_but_here(browser, ann, app):
    other = Browser(app)
    await other.sign_in()
    new = "an entirely new one"
    changed = await browser.fill("/profile/password", current=PASSWORD, wanted=new)
    assert changed.status_code == 303
    assert (await browser.get("/profile")).status_code == 200
    assert (await other.get("/profile")).status_code == 303
    assert [(await other.sign_in(password=one)).status_code for one in (PASSWORD, new)] == [
        401,
        303,
    ]


@pytest.mark.parametrize(
    ("current", "wanted", "status"),
    [("wrong", "an entirely new one", 401), (PASSWORD, PASSWORD, 400), (PASSWORD, "short", 400)],
    ids=["wrong", "same", "short"],
)
async def test_a_password_that_is_not_changed_says_why(browser, ann, current, wanted, status):
    told = await browser.fill("/profile/password", current=current, wanted=wanted)
    assert (told.status_code, 'role="alert"' in told.text) == (status, True)
    assert (await browser.get("/profile")).status_code == 200


FORMS = ["/logout", "/profile/keys", "/profile/keys/mine/revoke", "/profile/password"]


async def test_a_form_without_the_secret_of_its_session_does_nothing(browser, ann, store, app):
    await store.keys.add(tenants.key("mine", user_id=ann.user_id))
    other = Browser(app)
    await other.sign_in()
    fields = {"name": "x", "current": PASSWORD, "wanted": "an entirely new one"}
    for csrf in ("", "made up", other.client.cookies["llmgw_csrf"]):
        sent = [await browser.send(path, csrf=csrf, **fields) for path in FORMS]
        assert [one.status_code for one in sent] == [403] * len(FORMS)
    (key,) = await store.keys.all()
    assert (key.revoked_at, (await browser.get("/profile")).status_code) == (None, 200)
    assert (await browser.sign_in()).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}],
    ids=str,
)
async def test_a_form_of_another_site_is_refused(browser, ann, headers):
    csrf = browser.client.cookies["llmgw_csrf"]
    fields = {"csrf": csrf, "email": EMAIL, "password": PASSWORD, "name": "x"}
    for path in ("/login", "/signup", *FORMS):
        refused = await browser.send(path, headers=headers, **fields)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)


async def test_behind_a_proxy_that_asks_otherwise_the_public_address_is_ours(store, clock, ann):
    app = pages.make_app(store, clock, public_url="https://llm.example")
    behind = Browser(app, url="https://10.0.0.5:8080")
    for origin, status in (("https://llm.example", 303), ("https://evil.example", 403)):
        sent = await behind.send(
            "/login", headers={"origin": origin}, email=EMAIL, password=PASSWORD
        )
        assert sent.status_code == status


async def test_a_form_of_our_own_page_is_taken(browser, ann):
    taken = await browser.send(
        "/login",
        headers={"origin": pages.URL, "sec-fetch-site": "same-origin"},
        email=EMAIL,
        password=PASSWORD,
    )
    assert taken.status_code == 303


NO_FORMS = {
    "json": (b'{"email": "x"}', "application/json"),
    "too large": (b"email=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
    "no utf-8": (b"email=%ff", "application/x-www-form-urlencoded"),
    "nul": (b"email=%00", "application/x-www-form-urlencoded"),
    "too many": (b"&".join([b"a=b"] * 100), "application/x-www-form-urlencoded"),
    "no text": (b"\xff\xfe", "application/x-www-form-urlencoded"),
}


async def test_what_is_no_form_is_refused(browser):
    told = {
        name: (
            await browser.client.post("/login", content=body, headers={"content-type": kind})
        ).status_code
        for name, (body, kind) in NO_FORMS.items()
    }
    assert told == dict.fromkeys(NO_FORMS, 400)


@pytest.fixture
async def link(store, clock):
    """A link to a key that somebody else made."""
    await store.keys.add(
        tenants.key(),
        claim=(sealed := sealing.seal("sk-secret", key_id="k1", now=clock.wall())).claim,
    )
    return f"/claim/{sealed.token}"


async def test_looking_at_a_link_takes_nothing_and_the_button_once(browser, link):
    looked = [await browser.get(link) for _ in range(2)]
    assert [("sk-secret" in one.text, one.status_code) for one in looked] == [(False, 200)] * 2
    taken = await browser.send(link)
    assert _SECRET.search(taken.text)[1] == "sk-secret"
    assert [one.status_code for one in (await browser.send(link), await browser.get(link))] == [
        404
    ] * 2


async def test_two_presses_at_once_show_the_key_to_one(app, link):
    both = [Browser(app), Browser(app)]
    shown = await asyncio.gather(*(one.send(link) for one in both))
    assert sorted(one.status_code for one in shown) == [200, 404]


async def test_a_link_ends_with_its_time(browser, link, clock):
    clock.advance(72 * 3600.0)
    assert (await browser.get(link)).status_code == 404
    assert (await browser.send(link)).status_code == 404


async def test_a_link_of_another_site_is_not_pressed(browser, link):
    refused = await browser.send(link, headers={"origin": "http://evil.example"})
    assert refused.status_code == 403
    assert (await browser.get(link)).status_code == 200


async def test_no_page_is_kept_framed_or_gives_its_address_away(browser, ann):
    for path in ("/login", "/signup", "/claim/none", "/nowhere", "/profile"):
        fields = (await browser.get(path)).headers
        assert fields["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in fields["content-security-policy"]
        assert "default-src 'none'" in fields["content-security-policy"]
        assert fields["referrer-policy"] == "same-origin"
        assert fields["x-content-type-options"] == "nosniff"


async def test_a_store_that_is_away_is_said_with_a_time_to_try_again(browser, ann, store):
    async def away(*args, **given):
        raise Unavailable("the store is away")

    store.sessions.find = away
    shown = await browser.get("/profile")
    assert (shown.status_code, shown.headers["retry-after"]) == (503, "5")


@pytest.mark.parametrize("path", ["/login", "/signup", "/claim/x"])
@pytest.mark.parametrize("kind", [Denied, Invalid, Unavailable])
async def test_where_the_store_lies_is_told_to_the_log_alone(browser, store, caplog, path, kind):
    async def away(*args, **given):
        error = kind("the store postgresql://llmgw@db.example/llmgw refuses the password")
        error.names_the_store = True
        raise error

    store.people.by_email = store.people.add = store.claims.open = away
    form = {"email": "ann@example.org", "name": "Ann", "password": PASSWORD}
    shown = await browser.send(path, **form)
    assert shown.status_code == STATUSES[kind]
    assert "this cannot be done now" in shown.text
    assert "db.example" not in shown.text
    assert "page_failed" in caplog.text


@pytest.mark.parametrize(
    "path", ["/api/v1/status", "/docs", "/openapi.json", "/api/v1/openapi.json"]
)
async def test_the_admin_api_is_not_behind_this_door(browser, path):
    assert (await browser.get(path)).status_code == 404


async def test_who_signs_in_elsewhere_gets_a_session_here(store, clock):
    provider = LoginProvider()
    provider.now = clock.wall
    await provider.start()
    client = Client(issuer=provider.url, client_id="llmgw", secret=lambda: SECRET)
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        login = OidcLogin(
            client,
            issuer=Issuer(client, http=http, clock=clock),
            admission=Admission(projects={"research": "p1"}),
            users=store.people,
            clock=clock,
        )
        browser = Browser(pages.make_app(store, clock, login=login, public_url=pages.URL))
        assert "/login/oidc" in (await browser.get("/login")).text
        away = await browser.get("/login/oidc")
        back = urlsplit(provider.authorize(away.headers["location"]))
        assert f"{back.scheme}://{back.netloc}{back.path}" == f"{pages.URL}/login/oidc/callback"
        stranger = Browser(browser.client._transport.app)
        assert (await stranger.get(f"{back.path}?{back.query}")).status_code == 401
        denied = await browser.get(f"{back.path}?error=access_denied")
        assert denied.status_code == 401
        entered = await browser.get(f"{back.path}?{back.query}")
        assert (entered.status_code, entered.headers["location"]) == (303, entry_pages.HOME)
        shown = await browser.get("/profile")
        assert (EMAIL in shown.text, "/profile/password" in shown.text) == (True, False)
        (user,) = await store.people.all()
        assert (user.state, user.subject) == (UserState.ACTIVE, "subject-1")
    await provider.close()
