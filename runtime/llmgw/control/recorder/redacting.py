"""Takes out of recordings, and of other texts, what must not leave the site; pure.

The same secret becomes the same word everywhere, so that what was equal stays equal, and a pass is
decided from its redacted snapshot as it was from the real one.  Words for environment values,
arguments of telling names, credentials and queries in addresses, labels of telling names, tokens of
known shapes, and addresses of machines; what engines printed is left out whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmgw.control.reconciler import deciding
from llmgw.control.recorder import recordings
from llmgw.control.recorder.recordings import Recording
from llmgw.domain.snapshots import Snapshot
from llmgw.kit import trees

_TELLING = re.compile(
    r"pass(wd|word|phrase)?$|secret|token$|credential|api[-_]?key|auth|(^|[-_.])key$|cookie|bearer",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s\"']+(?=@)")
_QUERY = re.compile(r"(?<=[?&])([A-Za-z0-9_.~%-]+)=([^&\s\"'#]+)")
_SHAPES = re.compile(
    r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ya29\.)[A-Za-z0-9_.\-]{8,}"
    r"|(?<=[Bb]earer )[^\s\"']+"
    r"|-----BEGIN [A-Z ]+-----[\s\S]*?-----END [A-Z ]+-----"
)
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])",
    re.IGNORECASE,
)
_SHORTEST = 6
"""A shorter secret is replaced where it stands, and not wherever else its letters come."""

_PRINTED = frozenset({"last_output", "output"})
_OPEN_ADDRESSES = frozenset({"127.0.0.1", "0.0.0.0"})  # noqa: S104 - as text


class Redactor:
    """One copy for others: what it has seen once it knows everywhere."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._words: dict[str, str] = {}
        self._known: re.Pattern[str] | None = None

    def learn(self, tree: Any) -> None:
        """Note the secrets of a tree, by where they stand and what they look like."""
        before = len(self._words)
        for secret in _secrets(tree):
            self._word(secret)
        if len(self._words) != before:
            longest_first = sorted(self._words, key=len, reverse=True)
            found = [re.escape(s) for s in longest_first if len(s) >= _SHORTEST]
            self._known = re.compile("|".join(found)) if found else None

    def redacted(self, tree: Any) -> Any:
        """The tree without what is secret; ``learn`` it first."""
        return self._tree(tree)

    def text(self, text: str) -> str:
        """A text without what is secret."""
        if self._known is not None:
            text = self._known.sub(lambda found: self._words[found.group()], text)
        text = _CREDENTIALS.sub(lambda found: self._word(found.group()), text)
        text = _QUERY.sub(lambda found: f"{found.group(1)}={self._word(found.group(2))}", text)
        text = _SHAPES.sub(lambda found: self._word(found.group()), text)
        return _ADDRESS.sub(lambda found: self._address(found.group()), text)

    def _tree(self, tree: Any, *, name: str = "", is_secret: bool = False) -> Any:
        if isinstance(tree, str):
            return self._word(tree) if is_secret and tree else self.text(tree)
        if isinstance(tree, Mapping):
            return {
                self.text(key): []
                if key in _PRINTED
                else self._tree(one, name=key, is_secret=name == "env" or _is_secret(key, one))
                for key, one in tree.items()
            }
        if isinstance(tree, list):
            if name == "args":
                return [self._argument(tree, i) for i in range(len(tree))]
            return [self._tree(one, is_secret=is_secret) for one in tree]
        return tree

    def _argument(self, words: Sequence[Any], at: int) -> Any:
        word, before = words[at], words[at - 1] if at else ""
        option, equals, value = str(word).partition("=")
        if equals and _is_option(option):
            return f"{option}={self._word(value)}"
        if _is_option(str(before)) and "=" not in str(before) and not str(word).startswith("--"):
            return self._word(str(word))
        return self._tree(word)

    def _word(self, secret: str) -> str:
        if secret in self._words.values():
            return secret
        return self._words.setdefault(secret, f"(redacted-{len(self._words) + 1})")

    def _address(self, address: str) -> str:
        if address in _OPEN_ADDRESSES:
            return address
        return self._words.setdefault(address, f"(address-{len(self._words) + 1})")


def recording(one: Recording, redactor: Redactor) -> Recording:
    """A pass for others: its snapshot redacted, and what is decided from that.

    What had been decided otherwise than it is decided now keeps its own actions, redacted.
    """
    redactor.learn(one.snapshot)
    redactor.learn(one.decided)
    real = one.read()
    tree = redactor.redacted(one.snapshot)
    tree = _refingered(tree, _fingers(real, trees.decode(Snapshot, tree)))
    if recordings.decided(deciding.decide(real)) == one.decided:
        again: Snapshot = trees.decode(Snapshot, tree)
        decided: Any = recordings.decided(deciding.decide(again))
    else:
        decided = redactor.redacted(one.decided)
    return Recording(number=one.number, at=one.at, snapshot=tree, decided=decided)


def _secrets(tree: Any, *, name: str = "", is_secret: bool = False) -> Iterator[str]:
    if isinstance(tree, str):
        if is_secret and tree:
            yield tree
        return
    if isinstance(tree, Mapping):
        for key, one in tree.items():
            yield from _secrets(one, name=key, is_secret=name == "env" or _is_secret(key, one))
    elif isinstance(tree, list):
        yield from _of_arguments(tree) if name == "args" else ()
        for one in tree:
            yield from _secrets(one, is_secret=is_secret)


def _of_arguments(words: Sequence[Any]) -> Iterator[str]:
    for i, word in enumerate(map(str, words)):
        option, equals, value = word.partition("=")
        if not _is_option(option):
            continue
        if equals and value:
            yield value
        elif not equals and i + 1 < len(words) and not str(words[i + 1]).startswith("--"):
            yield str(words[i + 1])


def _is_option(word: str) -> bool:
    return word.startswith("-") and _TELLING.search(word) is not None


def _is_secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and _TELLING.search(key) is not None


def _fingers(real: Snapshot, redacted: Snapshot) -> Mapping[str, str]:
    """Fingerprints of profiles as they are, and as they are without their secrets."""
    pairs = zip(real.catalog.models.values(), redacted.catalog.models.values(), strict=True)
    return {
        before.fingerprint(model=was): after.fingerprint(model=now)
        for was, now in pairs
        for before, after in zip(was.profiles, now.profiles, strict=True)
    }


def _refingered(tree: Any, fingers: Mapping[str, str]) -> Any:
    if isinstance(tree, str):
        return fingers.get(tree, tree)
    if isinstance(tree, Mapping):
        return {key: _refingered(one, fingers) for key, one in tree.items()}
    if isinstance(tree, list):
        return [_refingered(one, fingers) for one in tree]
    return tree
