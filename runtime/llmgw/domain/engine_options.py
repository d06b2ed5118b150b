"""Which options of an engine a profile may set, and what a model's capabilities ask of them; pure.

The catalog is checked with it when it is written, and an agent's driver before a launch: an agent
may be older than the control plane that it gets its orders from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

RESERVED: Mapping[str, tuple[str, ...]] = {
    "llamacpp": ("--host", "--port", "--model", "-m", "--alias", "-a", "--api-key"),
    "sglang": (
        *("--host", "--port", "--config", "--model-path", "--model", "--served-model-name"),
        *("--tensor-parallel-size", "--tp-size", "--pipeline-parallel-size", "--pp-size"),
        *("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"),
        *("--api-key", "--admin-api-key", "--ssl-keyfile", "--ssl-certfile"),
    ),
    "sim": ("--listen", "--model", "--nnodes", "--node-rank", "--dist-init-addr"),
    "vllm": (
        *("--host", "--port", "--uds", "--config", "--model", "--served-model-name"),
        *("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp"),
        *("--distributed-executor-backend", "--nnodes", "-n", "--node-rank", "-r"),
        *("--master-addr", "--master-port", "--headless"),
        *("--api-key", "--ssl-keyfile", "--ssl-certfile", "--disable-log-stats", "--grpc"),
    ),
}
"""What the agent says itself, and what would hide an engine or its figures from the gateway."""

TOOL_PARSER = "--tool-call-parser"
POOLING: Mapping[str, tuple[str, ...]] = {
    "sglang": ("--is-embedding",),
    "vllm": ("--runner", "--convert", "--task"),
}
"""With one of these a profile says for itself that its engine embeds."""

_COPIES: Mapping[str, tuple[str, ...]] = {
    "sglang": ("--data-parallel-size", "--dp-size"),
    "vllm": ("--data-parallel-size", "-dp"),
}
_COPIES_THAT_SHARE = ("--enable-dp-attention", "--attn-dp-size")
_COUNT_OF_COPIES = (
    *("--attn-dp-size", "--attention-data-parallel-size"),
    *("--dp-size", "--data-parallel-size"),
)
_SHARED_PORTS = 14
_SHARED_PORTS_BEFORE_COPIES = 6
_OF_CHAT = ("json", "reasoning", "tools")
_LONG = "--"


def problems(engine: str, *, args: Sequence[str], capabilities: Sequence[str]) -> list[str]:
    """All that is wrong with a profile's arguments for this engine, a sentence each."""
    return [*_taken(engine, args), *_copies(engine, args), *_uses(engine, args, capabilities)]


def meeting_ports(engine: str, *, args: Sequence[str], tp: int) -> int:
    """How many ports rank 0 of several nodes opens, from the one at which ranks meet upwards.

    SGLang that splits attention opens six after it and the thirteenth, an older one (0.5.2) five
    and one for each copy: ``PortArgs.init_new`` and ``data_parallel_controller``.
    """
    if engine != "sglang" or not has_flag(args, *_COPIES_THAT_SHARE):
        return 1
    written = flag_value(args, *_COUNT_OF_COPIES) or ""
    copies = int(written) if written.isdecimal() else tp
    return max(_SHARED_PORTS, _SHARED_PORTS_BEFORE_COPIES + copies)


def has_flag(args: Sequence[str], *flags: str) -> bool:
    """Whether one of the flags is among the arguments, alone or as ``flag=value``."""
    return any(_name(arg) == flag for arg in args for flag in flags)


def flag_value(args: Sequence[str], *flags: str) -> str | None:
    """The value of the last such flag, in either form; nothing if it is absent or dangling."""
    found: str | None = None
    for position, arg in enumerate(args):
        if _name(arg) not in flags:
            continue
        _, equals, value = arg.partition("=")
        following = args[position + 1] if position + 1 < len(args) else None
        found = value if equals else following
    return found


def _taken(engine: str, args: Sequence[str]) -> Iterator[str]:
    reserved = RESERVED.get(engine, ())
    found = [flag for flag in reserved if any(_may_mean(arg, flag) for arg in args)]
    if found:
        yield f"llmgw sets {', '.join(found)} itself; remove it from args"


def _copies(engine: str, args: Sequence[str]) -> Iterator[str]:
    shares = engine == "sglang" and has_flag(args, *_COPIES_THAT_SHARE)
    if has_flag(args, *_COPIES.get(engine, ())) and not shares:
        yield (
            f"cards are counted by tp x pp, so {engine} may not split them further: remove "
            f"{_COPIES[engine][0]} from args and raise the number of replicas"
        )


def _uses(engine: str, args: Sequence[str], capabilities: Sequence[str]) -> Iterator[str]:
    """VLLM and SGLang do for a model what their options say, whatever the catalog claims of it."""
    if engine not in POOLING:
        return
    if "tools" in capabilities and not has_flag(args, TOOL_PARSER):
        yield f"the capability tools needs {TOOL_PARSER} in args, or {engine} refuses every tool"
    both = [capability for capability in _OF_CHAT if capability in capabilities]
    if "embeddings" in capabilities and both:
        yield (
            f"one {engine} either embeds or chats: give embeddings and {', '.join(both)} to two "
            "models"
        )


def _name(arg: str) -> str:
    """An option's name as it is documented; vLLM also takes ``_`` for ``-``."""
    name = arg.partition("=")[0]
    return name.replace("_", "-") if name.startswith(_LONG) else name


def _may_mean(arg: str, flag: str) -> bool:
    """Whether an engine may read the argument as this flag: Python's take shortened names."""
    name = _name(arg)
    is_shortened = len(name) > len(_LONG) + 1 and name.startswith(_LONG) and flag.startswith(name)
    return name == flag or is_shortened
