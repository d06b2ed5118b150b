"""Secrets are named in settings and resolved where they are used."""

from __future__ import annotations

import pytest

from llmgw.config import secrets
from llmgw.errors import Invalid


def test_a_secret_is_read_from_its_file_without_the_line_end(tmp_path):
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    assert secrets.resolve(f"@{file}", environ={}) == "s3cret"


def test_a_secret_is_read_from_its_variable():
    assert secrets.resolve("${API_KEY}", environ={"API_KEY": "s3cret"}) == "s3cret"


def test_no_reference_is_no_secret():
    assert secrets.resolve("", environ={}) == ""


@pytest.mark.parametrize(
    "text", ["sk-1234", "@relative", "$NAME", "${}", "${A B}", "@/a\n", "x${NAME}"]
)
def test_other_texts_are_no_references(text):
    assert not secrets.is_reference(text)
    with pytest.raises(Invalid) as refused:
        secrets.resolve(text, environ={"NAME": "x"})
    assert "sk-1234" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n", "is empty", id="blank"),
        pytest.param(b"\xff\xfe", "holds no text", id="binary"),
        pytest.param(b"x" * 70_000, "is too large", id="large"),
        pytest.param(b"sk-1\nX-Evil: yes", "more than one line", id="two lines"),
    ],
)
def test_a_file_that_cannot_be_a_secret_is_refused(tmp_path, content, reason):
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(Invalid, match=reason):
        secrets.resolve(f"@{file}", environ={})


def test_a_missing_place_is_named(tmp_path):
    with pytest.raises(Invalid, match="No such file"):
        secrets.resolve(f"@{tmp_path / 'none'}", environ={})
    with pytest.raises(Invalid, match="API_KEY is not set"):
        secrets.resolve("${API_KEY}", environ={"API_KEY": " "})
