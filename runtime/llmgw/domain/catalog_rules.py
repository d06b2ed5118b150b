"""Builds the catalog: every rule that a set of models must keep, and every mistake at once.

This is the one place where a ``Catalog`` is made. A definition that it accepts can be placed by
some fleet; whether today's fleet can is a question for placement.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmgw.domain import engine_options, names, weights
from llmgw.domain.catalog import (
    CAPABILITIES,
    CPU_ENGINES,
    ENGINES,
    ROUTING_PROFILES,
    Catalog,
    Model,
    Profile,
    Scaling,
)
from llmgw.errors import CatalogInvalid, Invalid, Problem

SHORTEST_STARTUP_S = 10.0
SHORTEST_IDLE_S = 60.0
LONGEST_DESCRIPTION = 500

GENERATED_ENV = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GLOO_SOCKET_IFNAME",
        "NCCL_IB_DISABLE",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "RAY_ADDRESS",
        "UCX_NET_DEVICES",
        "VLLM_HOST_IP",
    }
)
"""What an agent sets from the placement; a profile that changed it would use what others hold."""

BELOW_FP8 = re.compile(
    r"p\d+|v100|t4|a2|a10g?|a16|a30|a40|a[18]00|a[456][05]00|20[678]0|30[56789]0"
)
"""Cards with a compute capability below 8.9 (Ampere and older), by how their class begins."""

_FP8_ENGINES = frozenset({"vllm", "sglang"})
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One model and where it was written, ``models[2]``."""

    path: str
    model: Model


def build(
    models: Iterable[Model],
    *,
    stored: Iterable[str] = (),
    skipped: Mapping[str, str] | None = None,
) -> Catalog:
    """The catalog of these models, or ``CatalogInvalid`` with everything that is wrong.

    ``stored`` are the names of those that were added at run time, ``skipped`` what was left out of
    it, and why.
    """
    entries = [Entry(path=f"models[{i}]", model=model) for i, model in enumerate(models)]
    problems = check(entries)
    if problems:
        raise CatalogInvalid(f"the catalog holds {len(problems)} mistake(s)", problems)
    return Catalog(
        models={entry.model.name: entry.model for entry in entries},
        canonical={name: entry.model.name for entry in entries for name in entry.model.names},
        stored=frozenset(stored),
        skipped=skipped or {},
    )


def check(
    entries: Sequence[Entry],
    *,
    already: Sequence[Problem] = (),
    taken: Mapping[str, str] | None = None,
) -> tuple[Problem, ...]:
    """Every broken rule; one that rests on a field with a problem ``already`` is left out.

    ``taken`` are names and aliases of models beside these, and who holds each; nothing is said of
    those models, for they were there first.
    """
    damaged = [problem.path for problem in already]
    return tuple(
        problem
        for problem in _all(entries, taken or {})
        if not any(
            _is_within(problem.path, path) or _is_within(path, problem.path) for path in damaged
        )
    )


def _all(entries: Sequence[Entry], taken: Mapping[str, str]) -> Iterator[Problem]:
    yield from _names(entries, taken)
    yield from _fallbacks(entries, taken)
    for entry in entries:
        yield from _model(entry)


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _names(entries: Sequence[Entry], taken: Mapping[str, str]) -> Iterator[Problem]:
    """Names and aliases are one set: a client must never be able to mean two models."""
    owners = dict(taken)
    for path, name in _written_names(entries):
        if not names.MODEL_NAME.fullmatch(name):
            yield Problem(
                path,
                f"{name!r} is no model name; legal: letters, digits and . _ : - "
                "after a first letter or digit, 128 characters at most",
            )
        elif name in owners:
            yield Problem(path, f"{name!r} is taken by {owners[name]}")
        else:
            owners[name] = path


def _written_names(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Where each name stands; canonical names first, so that an alias is the one in the wrong."""
    for entry in entries:
        yield f"{entry.path}.name", entry.model.name
    for entry in entries:
        for i, alias in enumerate(entry.model.aliases):
            yield f"{entry.path}.aliases[{i}]", alias


def _fallbacks(entries: Sequence[Entry], taken: Mapping[str, str]) -> Iterator[Problem]:
    known = dict(taken)
    known |= {name: entry.model.name for entry in entries for name in entry.model.names}
    for entry in entries:
        for i, fallback in enumerate(entry.model.fallbacks):
            path = f"{entry.path}.fallbacks[{i}]"
            if fallback not in known:
                yield Problem(path, f"{fallback!r} is neither a model nor an alias")
            elif known[fallback] == entry.model.name:
                yield Problem(path, f"{fallback!r} is the model itself")


def _model(entry: Entry) -> Iterator[Problem]:
    path, model = entry.path, entry.model
    if not model.source:
        yield Problem(f"{path}.source", "is required")
    else:
        yield from _source(f"{path}.source", model.source)
    if model.routing_profile and model.routing_profile not in ROUTING_PROFILES:
        yield Problem(
            f"{path}.routing_profile", _not_one_of(model.routing_profile, ROUTING_PROFILES)
        )
    for i, capability in enumerate(model.capabilities):
        if capability not in CAPABILITIES:
            yield Problem(f"{path}.capabilities[{i}]", _not_one_of(capability, CAPABILITIES))
    if model.description is not None:
        yield from _description(f"{path}.description", model.description)
    if model.scaling is not None:
        yield from _scaling(f"{path}.scaling", model.scaling)
    yield from _profiles(path, model)


def _source(path: str, source: str) -> Iterator[Problem]:
    try:
        weights.check(source)
    except Invalid as error:
        yield Problem(path, error.message)


def _not_one_of(written: str, legal: Iterable[str]) -> str:
    return f"{written!r} is not known; legal: {', '.join(legal)}"


def _description(path: str, description: str) -> Iterator[Problem]:
    if len(description) > LONGEST_DESCRIPTION or len(description.splitlines()) > 1:
        yield Problem(path, f"must be one line of at most {LONGEST_DESCRIPTION} characters")


def _scaling(path: str, scaling: Scaling) -> Iterator[Problem]:
    if scaling.min < 0 or scaling.max < 0:
        yield Problem(path, "min and max must be at least 0")
    elif scaling.max < scaling.min:
        yield Problem(
            f"{path}.max",
            f"{scaling.max} is less than min {scaling.min}; leave max out to run exactly min",
        )
    if scaling.idle_timeout_s < SHORTEST_IDLE_S:
        yield Problem(f"{path}.idle_timeout", f"must be at least {SHORTEST_IDLE_S:g}s")


def _profiles(model_path: str, model: Model) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for i, profile in enumerate(model.profiles):
        path = f"{model_path}.profiles[{i}]"
        if not profile.name:
            yield Problem(f"{path}.name", "is required")
        elif profile.name in owners:
            yield Problem(f"{path}.name", f"{profile.name!r} is taken by {owners[profile.name]}")
        owners.setdefault(profile.name, path)
        yield from _engine(path, profile)
        for wrong in engine_options.problems(
            profile.engine, args=profile.args, capabilities=model.capabilities
        ):
            yield Problem(f"{path}.args", wrong)
        yield from _split(path, profile)
        yield from _needs(path, profile)
        yield from _environment(path, profile)


def _engine(path: str, profile: Profile) -> Iterator[Problem]:
    if profile.engine not in ENGINES:
        yield Problem(f"{path}.engine", _not_one_of(profile.engine, ENGINES))
        return
    if profile.is_cpu and profile.engine not in CPU_ENGINES:
        # Without this a forgotten class would quietly mean "runs on a processor".
        yield Problem(
            f"{path}.gpu_class",
            f"is required for {profile.engine}; "
            f"only {' and '.join(sorted(CPU_ENGINES))} run without a card",
        )
    if profile.engine in _FP8_ENGINES and _wants_fp8(profile.args):
        card = profile.gpu_class.partition("-")[0]
        if BELOW_FP8.fullmatch(card):
            yield Problem(
                f"{path}.args", f"fp8 needs compute capability 8.9, which {card} does not have"
            )


def _wants_fp8(args: Sequence[str]) -> bool:
    return "--quantization=fp8" in args or ("--quantization", "fp8") in itertools.pairwise(args)


def _split(path: str, profile: Profile) -> Iterator[Problem]:
    """How the model is cut over cards and nodes; one message, the first that applies."""
    if min(profile.tp, profile.pp, profile.nodes) < 1 or profile.gpus_per_node < 0:
        yield Problem(path, "tp, pp and nodes must be at least 1, gpus_per_node at least 0")
    elif profile.engine == "llamacpp" and (profile.nodes > 1 or profile.tp > 1):
        yield Problem(path, "llamacpp runs on one node without a tensor group: nodes 1 and tp 1")
    elif profile.is_cpu and profile.engine not in CPU_ENGINES:
        return
    elif profile.is_cpu and (profile.nodes > 1 or profile.gpus_per_node):
        yield Problem(path, "without gpu_class a profile runs on one node and claims no card")
    elif profile.nodes > 1 and not profile.gpus_per_node:
        yield Problem(f"{path}.gpus_per_node", f"is required with nodes {profile.nodes}")
    else:
        per_node = profile.gpus_per_node or profile.tp
        if profile.nodes * per_node != profile.tp * profile.pp:
            yield Problem(
                path,
                f"nodes x gpus_per_node is {profile.nodes} x {per_node}, "
                f"but tp x pp is {profile.tp} x {profile.pp}; the products must be equal",
            )


def _needs(path: str, profile: Profile) -> Iterator[Problem]:
    if profile.startup_timeout_s < SHORTEST_STARTUP_S:
        yield Problem(f"{path}.startup_timeout", f"must be at least {SHORTEST_STARTUP_S:g}s")
    for key in ("weight", "min_memory_gb", "min_disk_gb"):
        if getattr(profile, key) < 0:
            yield Problem(f"{path}.{key}", "must be at least 0")


def _environment(path: str, profile: Profile) -> Iterator[Problem]:
    for name in profile.env:
        if not _ENV_NAME.fullmatch(name):
            yield Problem(f"{path}.env.{name}", "is no name of an environment variable")
        elif name in GENERATED_ENV and not profile.allow_env_override:
            yield Problem(
                f"{path}.env.{name}",
                "is set from the placement; allow_env_override: true takes it over",
            )
