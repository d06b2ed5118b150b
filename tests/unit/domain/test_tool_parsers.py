"""A call that no parser read is known by its writing, and the parser that reads it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.agent.engines import help_texts
from llmgw.domain import tool_parsers

RECORDED = Path(__file__).parents[2] / "data" / "engine_help"


@pytest.mark.parametrize(
    ("text", "vllm", "sglang"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "hermes", "qwen25"),
        ("<tool_call>\n<function=f>\n<parameter=a>", "qwen3_coder", "qwen3_coder"),
        ("<tool_call>f\n<arg_key>city</arg_key>", "glm45", "glm45"),
        ('[TOOL_CALLS] [{"name": "f"}]', "mistral", "mistral"),
        ('<|python_tag|>{"name": "f", "parameters": {}}', "llama3_json", "llama3"),
        ('{"name": "f", "parameters": {"city": "Paris"}}', "llama3_json", "llama3"),
        ('[f(city="Paris")]', "pythonic", "pythonic"),
        ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "deepseek_v3", "deepseekv3"),
        ("<|tool_calls_section_begin|>", "kimi_k2", "kimi_k2"),
        ("<|channel|>commentary to=functions.f", "openai", "gpt-oss"),
        ("<minimax:tool_call>", "minimax_m2", "minimax-m2"),
    ],
)
def test_a_writing_is_known_and_both_engines_parsers_for_it(text, vllm, sglang):
    writing = tool_parsers.recognise(f"Let me look. \n{text}" if text[0] == "<" else text)
    assert writing is not None
    assert (writing.vllm, writing.sglang) == (vllm, sglang)
    assert vllm in tool_parsers.advice("vllm", writing)
    assert sglang in tool_parsers.advice("sglang", writing)
    both = tool_parsers.advice("", writing)
    assert f"{vllm} (vllm)" in both
    assert f"{sglang} (sglang)" in both


@pytest.mark.parametrize(
    "text", ["", "It is 21 degrees.", '{"city": "Paris"}', "[1, 2]", "Use the [weather] tool."]
)
def test_plain_words_are_no_call(text):
    assert tool_parsers.recognise(text) is None


@pytest.mark.parametrize("engine", ["vllm-0.33.0", "sglang-0.5.23"])
def test_every_parser_that_is_advised_is_one_of_the_engine(engine):
    options = help_texts.parse((RECORDED / f"{engine}.txt").read_text())
    legal = options["--tool-call-parser"].choices
    kind = engine.partition("-")[0]
    advised = {getattr(writing, kind) for writing in tool_parsers.WRITINGS} - {""}
    assert advised <= set(legal)
