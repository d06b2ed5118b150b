"""Endpoints are remembered for the heads that they answered, for a while and within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.prefix import BLOCK_BYTES, PrefixRules, PrefixTree

ALL_LENGTHS = PrefixRules(min_match_bytes=BLOCK_BYTES, match_ratio=0.0, ttl_s=100.0)
A, B, C = 1, 2, 3


def text(size, letter=b"x"):
    return letter * size


def holders(tree, head, *, now=1.0, among=(A, B, C), model=b"m"):
    share, found = tree.trail(model, head, now).longest_of(list(among))
    return share, {among[index] for index in found}


def test_head_that_was_answered_leads_back_to_its_endpoint():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    assert holders(tree, text(640)) == (1.0, {A})


def test_sixty_three_bytes_in_common_bind_nothing_and_sixty_four_may():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(96), incarnation=A, now=0.0)
    assert holders(tree, text(63) + text(37, b"y")) == (0.0, set())
    assert holders(tree, text(64) + text(36, b"y")) == (0.64, {A})


def test_share_below_the_ratio_binds_nothing_and_the_ratio_itself_may():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(960), incarnation=A, now=0.0)
    assert holders(tree, text(96) + text(224, b"y")) == (0.3, {A})
    assert holders(tree, text(96) + text(225, b"y")) == (0.0, set())


def test_only_the_same_head_at_the_same_endpoint_just_now_is_known_already():
    tree = PrefixTree(ALL_LENGTHS)
    assert not tree.trail(b"m", text(96), 0.0).is_known_of(A, now=0.0)
    tree.insert(b"m", text(96), incarnation=A, now=0.0)
    same, longer = tree.trail(b"m", text(97), 0.5), tree.trail(b"m", text(128), 0.5)
    assert same.is_known_of(A, now=0.9)
    assert not same.is_known_of(A, now=1.1)
    assert not same.is_known_of(B, now=0.5)
    assert not longer.is_known_of(A, now=0.5)


def test_longest_match_goes_before_shorter_ones():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    tree.insert(b"m", text(320) + text(320, b"y"), incarnation=B, now=0.0)
    assert holders(tree, text(320) + text(320, b"y"))[1] == {B}
    assert holders(tree, text(320) + text(320, b"z")) == (0.5, {A, B})


def test_shorter_match_counts_where_holders_of_the_longest_may_not_be_asked():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    tree.insert(b"m", text(320), incarnation=B, now=0.0)
    assert holders(tree, text(640), among=(B, C)) == (0.5, {B})
    assert holders(tree, text(640), among=(C,)) == (0.0, set())


def test_expired_mark_never_wins():
    tree = PrefixTree(PrefixRules(ttl_s=600.0))
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    tree.insert(b"m", text(320), incarnation=B, now=400.0)
    assert holders(tree, text(640), now=599.0)[1] == {A}
    assert holders(tree, text(640), now=600.0) == (0.5, {B})
    assert holders(tree, text(640), now=1000.0) == (0.0, set())


def test_endpoint_that_came_back_as_another_process_inherits_no_mark():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    assert holders(tree, text(640), among=(B,)) == (0.0, set())


def test_models_share_nothing():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    assert holders(tree, text(640), model=b"n") == (0.0, set())


def test_looking_up_changes_nothing():
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", text(640), incarnation=A, now=0.0)
    for _ in range(3):
        assert holders(tree, text(320) + text(320, b"y")) == (0.5, {A})
    assert holders(tree, text(640), now=601.0) == (0.0, set())
    assert len(tree) == 2


def test_least_recently_used_leaf_goes_when_the_tree_is_full():
    tree = PrefixTree(PrefixRules(max_nodes=4))
    for number, letter in enumerate((b"a", b"b", b"c")):
        tree.insert(b"m", text(320, letter), incarnation=A, now=float(number))
    tree.insert(b"m", text(320, b"a"), incarnation=A, now=3.0)
    tree.insert(b"m", text(320, b"d"), incarnation=A, now=4.0)
    assert len(tree) == 4
    kept = {letter for letter in (b"a", b"b", b"c", b"d") if holders(tree, text(320, letter))[1]}
    assert kept == {b"a", b"c", b"d"}


def test_heads_that_nobody_uses_any_more_go_by_themselves():
    tree = PrefixTree(PrefixRules(ttl_s=100.0))
    for number in range(200):
        tree.insert(b"m", b"%032d" % number, incarnation=A, now=0.0)
    for number in range(200):
        tree.insert(b"n", b"%032d" % number, incarnation=A, now=200.0)
    assert len(tree) == 201


def test_marks_of_endpoints_that_come_and_go_do_not_pile_up():
    tree = PrefixTree(PrefixRules(ttl_s=100.0))
    for number in range(1000):
        tree.insert(b"m", text(64), incarnation=number, now=float(number))
    ((_, marks),) = tree.trail(b"m", text(64), 1000.0)._steps
    assert len(marks) <= 101


@given(
    st.lists(
        st.tuples(st.text("ab", max_size=6), st.sampled_from([A, B, C]), st.booleans()), max_size=60
    ),
    st.integers(2, 40),
)
def test_tree_finds_what_a_plain_search_finds_and_stays_within_its_bound(steps, max_nodes):
    """A letter stands for a block; without the bound the answer is that of a list of all heads."""
    exact = PrefixTree(ALL_LENGTHS)
    small = PrefixTree(PrefixRules(max_nodes=max_nodes, ttl_s=100.0))
    known = []
    for now, (word, who, is_insert) in enumerate(steps):
        head = b"".join(text(BLOCK_BYTES, letter.encode()) for letter in word)
        if is_insert:
            exact.insert(b"m", head, incarnation=who, now=float(now))
            small.insert(b"m", head, incarnation=who, now=float(now))
            known.append((word, who))
            assert len(small) <= max_nodes
            continue
        common = {pair: shared(pair[0], word) for pair in known}
        longest = max(common.values(), default=0)
        expected = {who for (_, who), length in common.items() if length == longest > 0}
        share, found = holders(exact, head, now=float(now))
        assert found == expected
        assert share == (longest / len(word) if longest else 0.0)


def shared(first, second):
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length
