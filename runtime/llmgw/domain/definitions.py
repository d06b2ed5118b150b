"""Reads model definitions as people write them, in ``server.yaml`` and in a file of their own.

Configuration and the admin API call it with what YAML or JSON gave them. Unknown keys are refused
at every level: a misspelt key that binds to nothing is a mistake that nobody would see.
What a single field may hold is checked here; how fields and models fit together is checked by
``catalog_rules``. A field that cannot be read is reported and keeps its default meanwhile.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.domain.catalog_rules import Entry
from llmgw.domain.pricing import Price
from llmgw.errors import CatalogInvalid, Invalid, Problem
from llmgw.kit import units

_T = TypeVar("_T")
_Parse = Callable[[object], _T]

MODEL_KEYS = (
    "name",
    "source",
    "aliases",
    "fallbacks",
    "routing_profile",
    "scaling",
    "profiles",
    "context_length",
    "capabilities",
    "description",
    "price",
)
"""What may be written of a model."""

PRICE_KEYS = ("prompt_per_1k", "completion_per_1k")
SCALING_KEYS = ("min", "max", "idle_timeout")
PROFILE_KEYS = (
    "name",
    "engine",
    "gpu_class",
    "tp",
    "pp",
    "nodes",
    "gpus_per_node",
    "args",
    "env",
    "allow_env_override",
    "priority",
    "weight",
    "startup_timeout",
    "node_selector",
    "min_memory_gb",
    "min_disk_gb",
)
_SHOWN_CHARACTERS = 80
_LARGEST = 2**31 - 1
"""Whole numbers go through wires and files that hold no larger ones."""

_LONGEST_S = 365 * 86400.0
_NEVER_SHOWN = frozenset({"env"})
"""Keys whose values may be secrets, so that no message quotes them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read, and every mistake on the way; an entry with mistakes is incomplete."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]


def load(raw: object, *, path: str = "models") -> tuple[Model, ...]:
    """The models of a list; ``CatalogInvalid`` with every mistake of reading and of rules."""
    reading = read(raw, path=path)
    problems = [*reading.problems]
    problems += catalog_rules.check(reading.entries, already=reading.problems)
    if problems:
        raise CatalogInvalid(f"{path} holds {len(problems)} mistake(s)", problems)
    return tuple(entry.model for entry in reading.entries)


def read(raw: object, *, path: str = "models") -> Reading:
    """The entries of a list of models; nothing at all is an empty list."""
    if raw is None:
        return Reading(entries=(), problems=())
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return Reading(entries=(), problems=(_wrong(path, raw, "a list of models"),))
    readings = [read_model(item, path=f"{path}[{i}]") for i, item in enumerate(raw)]
    return Reading(
        entries=tuple(entry for r in readings for entry in r.entries),
        problems=tuple(problem for r in readings for problem in r.problems),
    )


def read_model(raw: object, *, path: str) -> Reading:
    """The one entry of a mapping; none when it is no mapping."""
    if not isinstance(raw, Mapping):
        return Reading(entries=(), problems=(_wrong(path, raw, "a mapping of a model"),))
    fields = _Fields(raw, path=path, keys=MODEL_KEYS, what="a model")
    model = Model(
        name=fields.required("name", _text, ""),
        source=fields.required("source", _text, ""),
        aliases=fields.get("aliases", _texts, ()),
        fallbacks=fields.get("fallbacks", _texts, ()),
        routing_profile=fields.get("routing_profile", _text, ""),
        scaling=_scaling(fields),
        profiles=_profiles(fields),
        context_length=fields.get("context_length", _count, 0) or None,
        capabilities=fields.get("capabilities", _texts, ()),
        description=fields.get("description", _text, "") or None,
        price=_price(fields),
    )
    return Reading(entries=(Entry(path=path, model=model),), problems=tuple(fields.problems))


def _scaling(parent: _Fields) -> Scaling | None:
    raw = parent.raw.get("scaling")
    if raw is None:
        return None
    fields = parent.below(raw, path=parent.at("scaling"), keys=SCALING_KEYS, what="scaling")
    minimum = fields.get("min", _count, 0)
    return Scaling(
        min=minimum,
        # A promise of N copies needs no second figure; 0 stays 0: no request may start it.
        max=fields.get("max", _count, 0) or minimum,
        idle_timeout_s=fields.get("idle_timeout", _seconds, Scaling().idle_timeout_s),
    )


def _price(parent: _Fields) -> Price | None:
    raw = parent.raw.get("price")
    if raw is None:
        return None
    fields = parent.below(raw, path=parent.at("price"), keys=PRICE_KEYS, what="a price")
    return Price(fields.get("prompt_per_1k", _count, 0), fields.get("completion_per_1k", _count, 0))


def _profiles(parent: _Fields) -> tuple[Profile, ...]:
    raw = parent.raw.get("profiles")
    path = parent.at("profiles")
    if raw is None:
        return ()
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        parent.problems.append(_wrong(path, raw, "a list of profiles"))
        return ()
    return tuple(_profile(parent, item, path=f"{path}[{i}]") for i, item in enumerate(raw))


def _profile(parent: _Fields, raw: object, *, path: str) -> Profile:
    fields = parent.below(raw, path=path, keys=PROFILE_KEYS, what="a profile")
    plain = Profile(name="", engine="")
    return Profile(
        name=fields.required("name", _text, ""),
        engine=fields.required("engine", _text, ""),
        gpu_class=fields.get("gpu_class", _text, ""),
        tp=fields.get("tp", _positive, plain.tp),
        pp=fields.get("pp", _positive, plain.pp),
        nodes=fields.get("nodes", _positive, plain.nodes),
        gpus_per_node=fields.get("gpus_per_node", _count, plain.gpus_per_node),
        args=fields.get("args", _words, ()),
        env=fields.get("env", _words_by_name, {}),
        allow_env_override=fields.get("allow_env_override", _flag, plain.allow_env_override),
        priority=fields.get("priority", _integer, plain.priority),
        weight=fields.get("weight", _amount, plain.weight) or plain.weight,
        startup_timeout_s=fields.get("startup_timeout", _seconds, plain.startup_timeout_s),
        node_selector=fields.get("node_selector", _words_by_name, {}),
        min_memory_gb=fields.get("min_memory_gb", _amount, plain.min_memory_gb),
        min_disk_gb=fields.get("min_disk_gb", _amount, plain.min_disk_gb),
    )


class _Fields:
    """One mapping of somebody's input: takes its fields out and collects their mistakes."""

    def __init__(
        self, raw: Mapping[object, object], *, path: str, keys: tuple[str, ...], what: str
    ) -> None:
        self.raw = raw
        self.problems: list[Problem] = []
        self._path = path
        self.problems += [
            Problem(self.at(str(key)), f"unknown key of {what}; legal: {', '.join(keys)}")
            for key in raw
            if key not in keys
        ]

    def at(self, key: str) -> str:
        return f"{self._path}.{key}"

    def below(self, raw: object, *, path: str, keys: tuple[str, ...], what: str) -> _Fields:
        """A mapping inside this one, which collects into the same list."""
        if not isinstance(raw, Mapping):
            self.problems.append(_wrong(path, raw, f"a mapping of {what}"))
            # Its required fields are not reported on top: the one mistake is the shape.
            return _Fields({}, path=path, keys=keys, what=what)
        inner = _Fields(raw, path=path, keys=keys, what=what)
        self.problems += inner.problems
        inner.problems = self.problems
        return inner

    def required(self, key: str, parse: _Parse[_T], default: _T) -> _T:
        written = self.raw.get(key)
        if written is None or written == "":
            self.problems.append(Problem(self.at(key), "is required"))
            return default
        return self.get(key, parse, default)

    def get(self, key: str, parse: _Parse[_T], default: _T) -> _T:
        written = self.raw.get(key)
        if written is None:
            return default
        try:
            return parse(written)
        except Invalid as wrong:
            self.problems.append(
                Problem(self.at(key), f"is not {wrong.message}")
                if key in _NEVER_SHOWN
                else _wrong(self.at(key), written, wrong.message)
            )
            return default


def _wrong(path: str, written: object, legal: str) -> Problem:
    shortened = reprlib.Repr()  # a few letters of YAML can be endless when they are spelt out
    shortened.maxstring = shortened.maxother = 2 * _SHOWN_CHARACTERS
    shown = shortened.repr(written)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}…"
    return Problem(path, f"{shown} is not {legal}")


def _text(written: object) -> str:
    if not isinstance(written, str):
        raise Invalid("text")
    return _passed_on(written).strip()


def _passed_on(text: str) -> str:
    """Text that a program can be started with and a wire can carry."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Invalid("text without NUL and without half a pair of surrogates")
    return text


def _texts(written: object) -> tuple[str, ...]:
    if not isinstance(written, Sequence) or isinstance(written, str):
        raise Invalid("a list of texts")
    if not all(isinstance(item, str) and item for item in written):
        raise Invalid("a list of non-empty texts")
    return tuple(map(_passed_on, written))


def _word(written: object) -> str:
    """Text, or a number that becomes text; of a bare yes or no YAML has lost the spelling."""
    if isinstance(written, bool) or not isinstance(written, (str, int, float)):
        raise Invalid("text or a number; put yes, no, true and false in quotes")
    return _passed_on(str(written))


def _words(written: object) -> tuple[str, ...]:
    if not isinstance(written, Sequence) or isinstance(written, str):
        raise Invalid("a list of texts")
    return tuple(map(_word, written))


def _words_by_name(written: object) -> Mapping[str, str]:
    if not isinstance(written, Mapping):
        raise Invalid("a mapping of names to texts")
    if not all(isinstance(name, str) and name for name in written):
        raise Invalid("a mapping of names to texts")
    return {_passed_on(name): _word(value) for name, value in written.items()}


def _flag(written: object) -> bool:
    if not isinstance(written, bool):
        raise Invalid("true or false")
    return written


def _integer(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise Invalid("a whole number")
    if abs(written) > _LARGEST:
        raise Invalid(f"a whole number of at most {_LARGEST}")
    return written


def _count(written: object) -> int:
    if _integer(written) < 0:
        raise Invalid("a whole number of at least 0")
    return _integer(written)


def _positive(written: object) -> int:
    if _integer(written) < 1:
        raise Invalid("a whole number of at least 1")
    return _integer(written)


def _amount(written: object) -> float:
    if isinstance(written, bool) or not isinstance(written, (int, float)):
        raise Invalid("a number")
    if not math.isfinite(written) or written < 0:
        raise Invalid("a number of at least 0")
    return float(written)


def _seconds(written: object) -> float:
    try:
        found_s = units.seconds(written)
    except Invalid:
        raise Invalid("a duration such as 2s, 15m, 1h or a number of seconds") from None
    if found_s > _LONGEST_S:
        raise Invalid("a duration of at most a year")
    return found_s
