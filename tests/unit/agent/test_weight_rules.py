"""Small rules of downloads: pace, digests, room, tries, and what a failed connection means."""

from __future__ import annotations

import hashlib
import os
import ssl

import httpx
import pytest

from llmgw.agent.weights import digests, headroom, http_failures, mirrors
from llmgw.agent.weights.digests import Hashing
from llmgw.agent.weights.headroom import Headroom
from llmgw.agent.weights.http_failures import Setback
from llmgw.agent.weights.paces import Pace
from llmgw.agent.weights.retrying import Retries
from llmgw.domain.replicas import FetchProgress
from llmgw.errors import Denied, Exhausted, Invalid, Unknown, Unreachable
from llmgw.kit.backoff import Backoff

HEX = "ab" * 32
TOLD = "sha-256=:q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=:"


def test_a_rate_is_unknown_before_a_second_has_passed():
    pace = Pace()
    assert pace.bytes_per_s() is None
    pace.note(done_bytes=0, at_s=0.0)
    pace.note(done_bytes=10, at_s=0.5)
    assert pace.bytes_per_s() is None


def test_a_rate_is_of_the_last_half_minute():
    pace = Pace()
    for second in range(100):
        pace.note(done_bytes=second * (1000 if second < 60 else 2000), at_s=float(second))
    assert pace.bytes_per_s() == pytest.approx(2000)


@pytest.mark.parametrize(
    ("total", "rate", "left"),
    [(4000, 2000.0, 1.5), (None, 2000.0, None), (4000, 0.0, None), (4000, None, None)],
)
def test_what_is_left_is_unknown_where_length_or_rate_are(total, rate, left):
    assert FetchProgress("s", 1000, total, rate).eta_s == left


def test_a_download_that_begins_anew_has_no_rate_of_before():
    pace = Pace()
    pace.note(done_bytes=0, at_s=0.0)
    pace.note(done_bytes=5000, at_s=5.0)
    pace.note(done_bytes=0, at_s=6.0)
    assert pace.bytes_per_s() is None


@pytest.mark.parametrize(
    "text", [HEX, f'"{HEX}"', f"sha256:{HEX}", HEX.upper(), f" {HEX} "], ids=str
)
def test_a_sha256_is_read_however_it_is_written(text):
    assert digests.sha256(text).value == HEX


@pytest.mark.parametrize("value", ["", "abc", HEX[:-1], HEX[:-1] + "g", None, 7, "md5:" + HEX])
def test_what_is_no_sha256_is_none(value):
    assert digests.sha256(value) is None


def test_a_git_id_is_worked_out_as_git_does():
    """``git hash-object`` of a file that holds "hello\n"."""
    wanted = digests.git_blob("ce013625030ba8dba906f756967f9e9ca394464a")
    hashing = Hashing(wanted, size_bytes=6)
    hashing.update(b"hel")
    hashing.update(b"lo\n")
    assert hashing.result() == wanted
    assert digests.noted(str(wanted)) == wanted
    assert digests.noted("crc:1") is None


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x-linked-etag": f'"{HEX}"'}, HEX),
        ({"repr-digest": TOLD}, HEX),
        ({"repr-digest": f"sha-512=:AAAA:, {TOLD}"}, HEX),
        ({"repr-digest": "sha-256=:????:"}, None),
        ({"repr-digest": "sha-256=:A:"}, None),
        ({"etag": f'"{HEX}"'}, None),
    ],
    ids=["hub", "standard", "one-of-two", "no-base64", "bad-base64", "etag"],
)
def test_only_what_is_meant_as_a_digest_is_taken_for_one(headers, told):
    found = digests.published(headers)
    assert (found and found.value) == told


def test_two_downloads_are_not_promised_the_same_space(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    room = Headroom(keep_free_bytes=0)
    room.check(tmp_path / "a", missing_bytes=int(free * 0.6))
    room.check(tmp_path / "a", missing_bytes=int(free * 0.6))
    with pytest.raises(Exhausted, match="of which other downloads need") as failed:
        room.check(tmp_path / "b", missing_bytes=int(free * 0.6))
    assert str(headroom.mount_point(tmp_path)) in failed.value.message
    room.forget(tmp_path / "a")
    room.check(tmp_path / "b", missing_bytes=int(free * 0.6))


def test_space_that_is_kept_is_not_used(tmp_path):
    with pytest.raises(Exhausted, match="are kept"):
        Headroom(keep_free_bytes=1 << 60).check(tmp_path / "a", missing_bytes=1)


async def test_a_try_that_brought_something_begins_the_count_anew():
    came, tries = 0, 0

    async def attempt():
        nonlocal came, tries
        tries += 1
        came += 1 if tries <= 20 else 0
        return Setback(Unreachable(f"try {tries}"))

    retries = Retries(tries=3, backoff=Backoff(base_s=0.0, max_s=0.0))
    with pytest.raises(Unreachable, match="try 22"):
        await retries.run(attempt, reached=lambda: came)


def cause(error, reason):
    error.__cause__ = reason
    return error


@pytest.mark.parametrize(
    ("error", "made", "words"),
    [
        pytest.param(
            cause(httpx.ConnectError("x"), ssl.SSLCertVerificationError("self-signed")),
            Invalid,
            "SSL_CERT_FILE",
            id="certificate",
        ),
        pytest.param(
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"),
            Invalid,
            "not trusted",
            id="certificate-text",
        ),
        pytest.param(httpx.ProxyError("403"), Unreachable, "NO_PROXY", id="proxy"),
        pytest.param(
            httpx.ConnectError("Name or service not known"),
            Unreachable,
            "from a mirror or a path",
            id="offline",
        ),
        pytest.param(httpx.TooManyRedirects("x"), Invalid, "without end", id="redirects"),
        pytest.param(httpx.UnsupportedProtocol("ftp"), Invalid, "no web address", id="protocol"),
        pytest.param(httpx.ReadTimeout("x"), Unreachable, "ReadTimeout", id="silence"),
    ],
)
def test_a_failed_connection_says_what_to_do_and_no_secret(error, made, words):
    failure = http_failures.unreachable(error, url="https://u:secret@h/x.gguf?token=secret")
    assert type(failure) is made
    assert words in failure.message
    assert "secret" not in failure.message


REFUSALS = {401: Denied, 403: Denied, 404: Unknown, 407: Denied, 429: Unreachable, 503: Unreachable}


@pytest.mark.parametrize(("status", "made"), REFUSALS.items())
def test_only_what_another_try_may_mend_is_unreachable(status, made):
    answer = httpx.Response(status, headers={"retry-after": "7"})
    assert type(http_failures.refused(answer, url="https://h/x")) is made
    assert http_failures.wait_s(answer) == pytest.approx(7.0)
    later = httpx.Response(status, headers={"retry-after": "Mon, 01 Jun 2026 10:00:00 GMT"})
    assert http_failures.wait_s(later) == 0.0


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"ratelimit": '"api";r=0;t=51'}, 51.0),
        ({"ratelimit": '"api";r=9;t=51'}, 0.0),
        ({"retry-after": "86400"}, 300.0),
    ],
    ids=["hub", "hub-with-some-left", "no-longer-than-five-minutes"],
)
def test_what_an_origin_asks_to_wait_is_waited(headers, wait_s):
    assert http_failures.wait_s(httpx.Response(429, headers=headers)) == wait_s


def test_a_plain_address_is_one_file_that_keeps_its_query():
    made = mirrors.by_name(f"https://h/a%20b.gguf?token=x#sha256={HEX}")
    [file] = made.files
    assert (file.path, file.url) == ("a b.gguf", "https://h/a%20b.gguf?token=x")
    assert file.digest.value == HEX
    assert not made.is_folder


def test_parts_of_a_split_model_are_pinned_one_by_one_or_not_at_all():
    with pytest.raises(Invalid, match="one part of 2"):
        mirrors.by_name(f"https://h/a-00001-of-00002.gguf#sha256={HEX}")
    made = mirrors.by_name("https://h/q/a-00001-of-00002.gguf?token=x")
    assert [file.url for file in made.files] == [
        f"https://h/q/a-0000{i}-of-00002.gguf?token=x" for i in (1, 2)
    ]
    assert made.total_bytes is None


def test_hashing_takes_blocks_of_any_size():
    wanted = digests.sha256(hashlib.sha256(b"abc").hexdigest())
    hashing = Hashing(wanted, size_bytes=None)
    for block in (b"", b"a", memoryview(b"bc")):
        hashing.update(block)
    assert hashing.result() == wanted
    assert wanted.shown == wanted.value[:12]
