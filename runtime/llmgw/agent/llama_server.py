"""A ``llama-server`` from the xllamacpp package: llama.cpp's own HTTP server under its own flags.

Called by ``llmgw llama-server``, which the llamacpp driver starts like any other ``llama-server``.
llama.cpp says little about a wrong file or a busy port, so both are looked at here first.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from llmgw.agent.discovery import host
from llmgw.domain.nodes import Host
from llmgw.errors import EngineFailed, ExtraMissing, Invalid, Unknown
from llmgw.kit import binding, logs
from llmgw.kit.addresses import Address

try:
    import xllamacpp
except ModuleNotFoundError:
    raise
except ImportError as error:  # the package is here and one of its libraries is not
    raise ExtraMissing(
        f"xllamacpp cannot be loaded: {error}; on Debian: apt-get install libgomp1"
    ) from error

_log = logs.get(__name__)

_MAGIC = b"GGUF"
_ENDINGS = (signal.SIGTERM, signal.SIGINT)
POOLINGS = ("none", "mean", "cls", "last", "rank")


@dataclass(frozen=True, slots=True)
class LlamaServerOptions:
    """The flags of ``llama-server`` that we take, with its defaults."""

    model: Path
    listen: Address
    aliases: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    ctx_size: int = 0
    """Tokens of context, split over the slots; 0 takes what the model was trained on."""

    parallel: int = 1
    threads: int = -1
    n_gpu_layers: int = -1
    has_metrics: bool = False
    has_slots: bool = True
    has_props: bool = False
    has_jinja: bool = True
    has_embeddings: bool = False
    pooling: str | None = None


def run(options: LlamaServerOptions) -> NoReturn:
    """Load the model and serve until SIGTERM or SIGINT; raise when that cannot begin.

    Until the model is loaded the signals keep their default action, because no Python runs then;
    afterwards the process leaves without unwinding llama.cpp, which would wait for open requests.
    """
    check_processor(host.read())
    check_model(options.model)
    binding.check(options.listen)
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    server = _started(options)
    for number in _ENDINGS:
        signal.signal(number, _leave)
    _log.info("listening", address=server.listening_address, model=options.model)
    while True:
        signal.pause()


def check_processor(machine: Host) -> None:
    """Raise unless the processor runs the package, which would end without a word (SIGILL)."""
    if machine.arch == "amd64" and machine.cpu_flags and "avx2" not in machine.cpu_flags:
        raise Invalid(
            "this processor has no AVX2, which the xllamacpp package is built for; "
            "of a virtual machine, set the CPU type to 'host'"
        )


def check_model(path: Path) -> None:
    """Raise unless the file is there and begins like a GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise Unknown(f"there is no model file {path}") from error
    except OSError as error:
        raise Invalid(f"the model file {path} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise Invalid(
            f"{path} is not a GGUF file: it begins with {magic!r} instead of {_MAGIC!r}; "
            "was its download complete?"
        )


def _started(options: LlamaServerOptions) -> Any:
    try:
        return xllamacpp.Server(_parameters(options))
    except Exception as error:  # xllamacpp raises whatever llama.cpp threw
        raise EngineFailed(
            f"llama.cpp could not serve {options.model}; its own lines above say why ({error})"
        ) from error


def _parameters(options: LlamaServerOptions) -> Any:
    made = xllamacpp.CommonParams()
    made.model.path = str(options.model)
    made.hostnames = [options.listen.host]
    made.port = options.listen.port
    made.model_alias = set(options.aliases)
    made.api_keys = list(options.api_keys)
    made.n_ctx = options.ctx_size
    made.n_parallel = options.parallel
    made.cpuparams.n_threads = options.threads
    made.cpuparams_batch.n_threads = options.threads
    made.n_gpu_layers = options.n_gpu_layers
    made.endpoint_metrics = options.has_metrics
    made.endpoint_slots = options.has_slots
    made.endpoint_props = options.has_props
    made.use_jinja = options.has_jinja
    made.embedding = options.has_embeddings
    if options.pooling is not None:
        name = f"LLAMA_POOLING_TYPE_{options.pooling.upper()}"
        made.pooling_type = xllamacpp.llama_pooling_type[name]
    return made


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  (signal gives them)
    os._exit(0)
