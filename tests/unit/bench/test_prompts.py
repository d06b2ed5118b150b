"""Prompts that no cache has seen, or that share their beginning."""

from __future__ import annotations

import itertools

from llmgw.bench.prompts import prompts


def some(count=50, **given):
    return list(itertools.islice(prompts(**given), count))


def common(texts):
    """How many words all of them begin with."""
    return sum(
        1 for _ in itertools.takewhile(lambda w: len(set(w)) == 1, zip(*texts, strict=False))
    )


def test_they_differ_from_the_first_word_on():
    texts = [text.split() for text in some(tokens=64, seed=1)]
    assert len({text[0] for text in texts}) == 50


def test_they_share_as_much_as_was_asked_for():
    texts = [text.split() for text in some(tokens=64, shared_tokens=40, seed=1)]
    assert common(texts) == 40


def test_their_length_is_what_was_asked_for():
    assert {len(text.split()) // 10 for text in some(tokens=64, seed=1)} == {7}


def test_one_seed_gives_the_same_prompts():
    assert some(tokens=8, seed=7) == some(tokens=8, seed=7)
    assert some(tokens=8, seed=7) != some(tokens=8, seed=8)
