"""Which models ``llmgw up`` finds, and what they are called."""

from __future__ import annotations

import pytest

from llmgw.domain import definitions
from llmgw.errors import Invalid
from llmgw.serve import local_models


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/m/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b-instruct"),
        ("https://host/a/b/Qwen2.5-0.5B.IQ4_XS.gguf?token=1", "qwen2.5-0.5b"),
        ("hf:org/repo/model-bf16.gguf", "model"),
        ("/m/big-Q8_0-00001-of-00003.gguf", "big"),
        ("/m/models/", "models"),
        ("/m/ö.gguf", "model"),
    ],
)
def test_a_name_is_the_file_without_its_quantisation(source, name):
    assert local_models.name_of(source) == name


def test_each_model_file_of_the_folder_is_served_a_split_one_once(tmp_path):
    for file in ("b.gguf", "A.Q4_0.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf", "x"):
        (tmp_path / file).touch()
    found = local_models.found(tmp_path, threads=3)
    assert [model["name"] for model in found] == ["a", "b", "c"]
    assert all(model["profiles"][0]["args"] == ["--threads", "3"] for model in found)


def test_a_named_folder_holds_one_model_maybe_split_and_no_others(tmp_path):
    for file in ("c-00001-of-00002.gguf", "c-00002-of-00002.gguf"):
        (tmp_path / file).touch()
    named = local_models.named(str(tmp_path), name="c", threads=1)
    assert named["source"] == str(tmp_path)
    (tmp_path / "b.gguf").touch()
    with pytest.raises(
        Invalid, match=r"several models: name one of b\.gguf, c-00001-of-00002\.gguf"
    ):
        local_models.named(str(tmp_path), name="c", threads=1)


def test_a_folder_that_is_not_there_holds_no_models(tmp_path):
    assert local_models.found(tmp_path / "nosuch", threads=1) == []


def test_definitions_are_what_a_person_could_write(tmp_path):
    (tmp_path / "a.gguf").touch()
    written = [
        *local_models.found(tmp_path, threads=1),
        local_models.named("https://host/b.gguf", name="mine", threads=1),
    ]
    first, second = definitions.load(written, path="models")
    assert (first.name, second.name) == ("a", "mine")
    assert first.scaling.min == 1


def test_a_path_is_made_absolute_and_must_be_there(tmp_path, monkeypatch):
    (tmp_path / "m.gguf").touch()
    monkeypatch.chdir(tmp_path)
    named = local_models.named("m.gguf", name=None, threads=1)
    assert named["source"] == str(tmp_path / "m.gguf")
    with pytest.raises(Invalid, match=r"nosuch\.gguf"):
        local_models.named("nosuch.gguf", name=None, threads=1)
