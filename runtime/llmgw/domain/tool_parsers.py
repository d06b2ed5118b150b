"""How models write their calls of tools, and which parser of an engine reads that writing; pure.

A parser that does not fit leaves the writing in the answer's text, by which it is known here. Names
are those of vLLM 0.33.0 and SGLang 0.5.23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Writing:
    """One way of writing calls; an empty name: no parser of that engine is known to read it."""

    name: str
    pattern: re.Pattern[str]
    vllm: str
    sglang: str


def _writing(name: str, pattern: str, *, vllm: str, sglang: str) -> Writing:
    return Writing(name, re.compile(pattern, re.DOTALL), vllm=vllm, sglang=sglang)


WRITINGS = (
    _writing("MiniMax M2", r"<minimax:tool_call>", vllm="minimax_m2", sglang="minimax-m2"),
    _writing(
        "Kimi K2",
        r"<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>",
        vllm="kimi_k2",
        sglang="kimi_k2",
    ),
    _writing(
        "DeepSeek V3",
        "<\uff5ctool\u2581calls\u2581begin\uff5c>",
        vllm="deepseek_v3",
        sglang="deepseekv3",
    ),
    _writing("Mistral", r"\[TOOL_CALLS\]", vllm="mistral", sglang="mistral"),
    _writing("gpt-oss", r"<\|channel\|>commentary|to=functions\.", vllm="openai", sglang="gpt-oss"),
    _writing("InternLM", r"<\|action_start\|>", vllm="internlm", sglang="interns1"),
    _writing("LFM2", r"<\|tool_call_start\|>", vllm="lfm2", sglang="lfm2"),
    _writing("Granite", r"<\|tool_call\|>", vllm="granite", sglang=""),
    _writing(
        "Qwen 3 Coder",
        r"<tool_call>\s*<function=|^\s*<function=\w",
        vllm="qwen3_coder",
        sglang="qwen3_coder",
    ),
    _writing("GLM 4.5", r"<tool_call>\s*\w+\s*<arg_key>", vllm="glm45", sglang="glm45"),
    _writing("Hermes and Qwen", r"<tool_call>\s*\{", vllm="hermes", sglang="qwen25"),
    _writing(
        "Llama 3",
        r"<\|python_tag\|>|\{\s*\"name\"\s*:\s*\"\w+\"\s*,\s*\"parameters\"\s*:",
        vllm="llama3_json",
        sglang="llama3",
    ),
    _writing("Python calls", r"^\s*\[\s*\w+\(\w+\s*=", vllm="pythonic", sglang="pythonic"),
)
"""The more particular before the more general."""


def recognise(text: str) -> Writing | None:
    """The way in which a text that should have been a call is written; nothing for plain words."""
    return next((one for one in WRITINGS if one.pattern.search(text)), None)


def advice(engine: str, writing: Writing) -> str:
    """What to set for an engine so that such calls are read."""
    names = {"sglang": writing.sglang, "vllm": writing.vllm}
    asked = [engine] if engine in names else sorted(names)
    known = [f"{names[one]} ({one})" for one in asked if names[one]]
    if not known:
        return f"it writes calls like {writing.name}, for which {engine} has no parser that we know"
    return f"it writes calls like {writing.name}: set --tool-call-parser {' or '.join(known)}"
