"""Which files of a repository make a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.weights import remote_files, selecting
from llmgw.agent.weights.remote_files import RemoteFile
from llmgw.errors import Invalid, LlmgwError, Unknown

QUANTS = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md"]
TENSORS = ["config.json", "tokenizer.model", "model.safetensors", "README.md", "LICENSE"]


@pytest.mark.parametrize(
    ("paths", "pattern", "chosen"),
    [
        pytest.param(QUANTS, "*Q4*", ["m-Q4_K_M.gguf"], id="glob"),
        pytest.param(QUANTS, "m-Q8_0.gguf", ["m-Q8_0.gguf"], id="name"),
        pytest.param(["q/a.gguf", "b.gguf"], "a*", ["q/a.gguf"], id="glob-of-a-name-below"),
        pytest.param(["q/a.gguf", "p/a.gguf"], "p/*", ["p/a.gguf"], id="glob-of-a-path"),
        pytest.param(
            ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"],
            "*-00001-*",
            ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"],
            id="all-parts",
        ),
        pytest.param(["only.gguf", "README.md"], "", ["only.gguf"], id="one-model"),
        pytest.param(
            ["only.gguf", "mmproj-f16.gguf"], "", ["only.gguf"], id="projector-is-no-model"
        ),
        pytest.param(TENSORS, "", sorted(TENSORS[:3]), id="checkpoint"),
        pytest.param(
            [*TENSORS, "consolidated.safetensors"], "", sorted(TENSORS[:3]), id="makers-own-layout"
        ),
        pytest.param(
            ["consolidated.safetensors", "params.json"],
            "",
            ["consolidated.safetensors", "params.json"],
            id="makers-own-layout-alone",
        ),
        pytest.param(
            [*TENSORS, "model.gguf", "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json"],
            "",
            sorted(TENSORS[:3]),
            id="other-formats",
        ),
        pytest.param(
            ["pytorch_model.bin", "config.json", "training_args.bin"],
            "",
            ["config.json", "pytorch_model.bin"],
            id="pytorch",
        ),
        pytest.param(
            [*TENSORS, "1_Pooling/config.json"],
            "",
            sorted([*TENSORS[:3], "1_Pooling/config.json"]),
            id="sentence-transformer",
        ),
    ],
)
def test_what_belongs_to_a_model_is_chosen(paths, pattern, chosen):
    assert list(selecting.select(paths, pattern=pattern, source="hf:o/r")) == chosen


@pytest.mark.parametrize(
    ("paths", "pattern", "error", "words"),
    [
        pytest.param(QUANTS, "*Q5*", Unknown, "it has m-Q4_K_M.gguf, m-Q8_0.gguf", id="none"),
        pytest.param(QUANTS, "", Invalid, "holds 2 models", id="several"),
        pytest.param(["README.md"], "", Unknown, "no weights that an engine loads", id="nothing"),
        pytest.param(["a-00001-of-00002.gguf"], "*", Invalid, "lacks a-00002", id="part-missing"),
        pytest.param(
            [f"m-{i}.gguf" for i in range(20)], "", Invalid, "and 12 more", id="long-offer"
        ),
    ],
)
def test_what_is_unclear_is_said_with_what_there_is(paths, pattern, error, words):
    with pytest.raises(error) as failed:
        selecting.select(paths, pattern=pattern, source="hf:o/r")
    assert words in failed.value.message


NAMES = ["a.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "m.safetensors", "config.json"]
FOLDERS = ["", "q/", "onnx/", "original/"]
REPOSITORIES = st.sets(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))).map(
    lambda pairs: sorted("".join(pair) for pair in pairs)
)


@given(REPOSITORIES, st.sampled_from(["", "*", "q/*", "a*", "a.gguf", "*.safetensors"]))
def test_a_choice_is_of_the_repository_and_never_half_a_split_model(paths, pattern):
    try:
        chosen = selecting.select(paths, pattern=pattern, source="hf:o/r")
    except LlmgwError:
        return
    assert chosen
    assert set(chosen) <= set(paths)
    for folder in FOLDERS:
        parts = [f"{folder}a-0000{i}-of-00002.gguf" in chosen for i in (1, 2)]
        assert len(set(parts)) == 1


def files(*paths):
    return [RemoteFile(path, f"https://h/{path}") for path in paths]


@pytest.mark.parametrize(
    ("paths", "moved", "entry"),
    [
        pytest.param(["q/a.gguf"], ["a.gguf"], "a.gguf", id="one"),
        pytest.param(
            ["q/a-00001-of-00002.gguf", "q/a-00002-of-00002.gguf"],
            ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"],
            "a-00001-of-00002.gguf",
            id="split",
        ),
        pytest.param(
            ["mmproj.gguf", "zeta.gguf"], ["mmproj.gguf", "zeta.gguf"], "zeta.gguf", id="projector"
        ),
        pytest.param(["q/a.gguf", "b.gguf"], ["q/a.gguf", "b.gguf"], "", id="several"),
        pytest.param(
            ["config.json", "m.safetensors"], ["config.json", "m.safetensors"], "", id="checkpoint"
        ),
        pytest.param(["v/q/a.gguf", "v/x.json"], ["q/a.gguf", "x.json"], "q/a.gguf", id="common"),
    ],
)
def test_files_move_up_to_where_engines_look(paths, moved, entry):
    made = remote_files.folder(files(*paths), source="s")
    assert [file.path for file in made.files] == moved
    assert made.entry == entry


OUTSIDE = ["../x.gguf", "/etc/x.gguf", "a//b.gguf", "a/./b", "a/../b", "a\\b", "a\0b", "a\nb", ""]


@pytest.mark.parametrize("path", [*OUTSIDE, "é" * 101])
def test_a_path_that_leads_out_of_the_folder_is_refused(path):
    with pytest.raises(Invalid, match="leads out"):
        remote_files.folder(files("ok.gguf", path), source="s")


def test_two_files_of_one_name_are_refused():
    with pytest.raises(Invalid, match="twice"):
        remote_files.folder(files("A.gguf", "a.gguf"), source="s")
