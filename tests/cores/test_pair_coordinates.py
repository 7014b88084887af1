"""Coordinates on pairs: read where the core says, compared prompt by prompt, and refused where rows do not belong together."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import pytest
import torch

from cores.hand_made import generator, orthogonal, random_core
from invariscope.cores import (
    Core,
    PairCoordinates,
    compare_coordinates,
    compare_pair_coordinates,
    read_pair_coordinates,
    validate_core,
)
from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError
from invariscope.models import fingerprint
from invariscope.sites import read_sites
from invariscope.tasks import Pair, PairSet
from tiny_language_models import TinyLanguageModel

SITE = "blocks.1.resid_post"


def number_pairs(num: int = 30) -> PairSet:
    """Both numbers of ``num`` nouns, a group each, of different lengths."""
    nouns = itertools.islice(itertools.product("bcdfgh", "aeiou", ("k", "nt")), num)
    found = []
    for noun in map("".join, nouns):
        for ending, answer, foil in (("", "is", "are"), ("s", "are", "is")):
            found.append(Pair(prompt=f"The {noun}{ending}", answers=answer, foils=foil, group=noun))
    return PairSet(found, name="number")


class Words(TinyLanguageModel):
    """The same model behind a tokeniser of whole words, so that prompts are split differently."""

    def encode(self, text: str) -> list[int]:
        return [1 + sum(map(ord, word)) % 48 for word in re.findall(r" ?\w+", text)]


@pytest.fixture(scope="module")
def llama() -> Any:
    return TinyLanguageModel("llama")


@pytest.fixture(scope="module")
def gpt2() -> Any:
    return TinyLanguageModel("gpt2", seed=1)


def a_core(lm: Any, rank: int = 2, seed: int = 0, **provenance: Any) -> Core:
    made = {"site": SITE, "positions": "last", "outputs_at": "last", "model": fingerprint(lm.model)} | provenance
    return random_core(32, rank, seed, **made)


def in_basis(core: Core, basis: torch.Tensor) -> Core:
    """The same subspaces, with coordinates z @ basis."""
    return dataclasses.replace(core, read=core.read @ basis, write=core.write @ torch.linalg.inv(basis).T)


def heldout(found: Any) -> list[float]:
    return [getattr(found, name).heldout for name in ("cca", "spearman", "procrustes", "cka")]


@pytest.mark.parametrize(("positions", "where"), [("last", [-1]), ("all", slice(None)), ("0::2", slice(0, None, 2)), (2, [2])])
def test_they_are_those_of_each_prompt_read_alone(llama, positions, where):
    core, pairs = a_core(llama, positions=positions), number_pairs(4)
    found = read_pair_coordinates(core, llama, pairs, batch_size=3)
    expected, prompts = [], []
    for i, pair in enumerate(pairs.pairs):
        with torch.no_grad(), read_sites(llama.model, [SITE]) as seen:
            # The space that both answers begin with belongs to the prompt of a tokeniser of letters.
            llama.model(torch.tensor([llama.encode(f"{pair.prompt} ")]))
        chosen = seen[SITE][where].double()
        expected.append((chosen - core.mean) @ core.read)
        prompts += [i] * len(chosen)
    assert torch.allclose(found.values, torch.cat(expected), atol=1e-4, rtol=0)
    assert found.rows.b.tolist() == prompts
    assert found.rows.groups.tolist() == [i // 2 for i in prompts]
    assert (found.num_prompts, found.num_groups) == (8, 4)
    assert (found.site, found.positions) == (SITE, positions)
    assert any("a space is put before" in note for note in found.notes)


def test_marked_tokens_are_those_of_the_table(llama):
    pairs = PairSet([dataclasses.replace(pair, position=1) for pair in number_pairs(4).pairs])
    marked = read_pair_coordinates(a_core(llama, positions="marked"), llama, pairs)
    second = read_pair_coordinates(a_core(llama, positions=1), llama, pairs)
    assert torch.equal(marked.values, second.values)


def test_a_core_in_another_basis_is_the_same_to_cca(llama):
    core, pairs = a_core(llama), number_pairs()
    given = read_pair_coordinates(core, llama, pairs)
    # The two coordinates are nearly one; in the third basis they are uncorrelated and of one size.
    white = torch.linalg.inv(torch.linalg.qr(given.values - given.values.mean(0)).R)
    turned, other = (read_pair_coordinates(in_basis(core, basis), llama, pairs) for basis in (orthogonal(2, 3), white))
    assert heldout(compare_pair_coordinates(given, given, num_permutations=5)) == pytest.approx([1.0] * 4)
    # Spearman is of canonical variates, so that a rotation is no matter to it either.
    assert heldout(compare_pair_coordinates(given, turned, num_permutations=5)) == pytest.approx([1.0] * 4)
    cca, spearman, procrustes, _ = heldout(compare_pair_coordinates(given, other, num_permutations=5))
    assert (cca, spearman) == pytest.approx((1.0, 1.0))
    assert 0.6 < procrustes < 0.85


def test_no_group_is_on_both_sides_and_the_generator_decides_which(llama, gpt2):
    pairs = number_pairs()
    a, b = (read_pair_coordinates(a_core(lm), lm, pairs) for lm in (llama, gpt2))
    found = compare_pair_coordinates(a, b, generator=generator(4), num_permutations=5)
    groups = torch.arange(30).repeat_interleave(2)
    assert found == compare_coordinates(a.values, b.values, groups=groups, generator=generator(4), num_permutations=5)
    assert found != compare_coordinates(a.values, b.values, generator=generator(4), num_permutations=5)
    assert found != compare_pair_coordinates(a, b, generator=generator(5), num_permutations=5)
    assert found.cca.num_fit % 2 == found.cca.num_heldout % 2 == 0
    few = number_pairs(19)
    with pytest.raises(TooFewSamplesError, match=r"in 9 groups to be|in 10 groups to be|in 8 groups to be"):
        compare_pair_coordinates(*(read_pair_coordinates(a_core(lm), lm, few) for lm in (llama, gpt2)))


def test_a_core_of_other_weights_is_refused_unless_forced(llama, gpt2):
    core, pairs = a_core(llama), number_pairs(4)
    with pytest.raises(ConfigError) as read:
        read_pair_coordinates(core, gpt2, pairs)
    with pytest.raises(ConfigError) as validated:
        validate_core(core, gpt2.model, [])
    assert str(read.value) == str(validated.value)
    assert (
        read.value.given
        == f"a core of the weights {fingerprint(llama.model)} and a model with the weights {fingerprint(gpt2.model)}"
    )
    forced = read_pair_coordinates(core, gpt2, pairs, force=True)
    unknown = read_pair_coordinates(a_core(llama, model=""), gpt2, pairs)
    assert torch.equal(forced.values, unknown.values)
    assert not torch.equal(forced.values, read_pair_coordinates(core, llama, pairs).values)


@pytest.mark.parametrize("missing", ["site", "positions"])
def test_a_core_that_does_not_know_where_is_refused(llama, missing):
    nowhere: dict[str, Any] = {missing: ""}
    with pytest.raises(ConfigError, match="does not know its site and positions; expected a core whose provenance names both"):
        read_pair_coordinates(a_core(llama, **nowhere), llama, number_pairs(4))


def test_rows_that_do_not_belong_together_are_refused(llama, gpt2):
    def read(lm: Any, positions: str | int, pairs: PairSet | None = None) -> PairCoordinates:
        return read_pair_coordinates(a_core(lm, positions=positions), lm, pairs or number_pairs())

    with pytest.raises(ShapeError, match="coordinates on number and on number, which are two tables"):
        compare_pair_coordinates(read(llama, "last"), read(gpt2, "last", number_pairs(29)))
    with pytest.raises(ShapeError, match="cores read at 'last' and at 'all', which are 1 and 8 tokens of the prompt 'The bak';"):
        compare_pair_coordinates(read(llama, "last"), read(gpt2, "all"))
    words = Words("gpt2")
    with pytest.raises(ShapeError, match="positions 0 in models that split the prompt 'The bak' differently: 'T' 'h' 'e' ' '"):
        compare_pair_coordinates(read(llama, 0), read(words, "last"))
    with pytest.raises(ShapeError, match="which are 8 and 2 tokens"):
        compare_pair_coordinates(read(llama, "all"), read(words, "all"))
    # The last token means one thing in both; so does one of a common splitting.
    for a, b in ((read(llama, "last"), read(words, "last")), (read(llama, 4), read(gpt2, 5))):
        assert compare_pair_coordinates(a, b, num_permutations=2).cca.dims == (2, 2)
