"""The last token alone, and the blocks above a site alone, give the logits of the plain forward."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch, text_inputs
from invariscope.errors import ConfigError, HookedSiteError, PositionError
from invariscope.models.downstream import Downstream, from_state, read_states, split_prefix
from invariscope.sites import margin, site_gradients
from tiny_language_models import FAMILIES, tiny_model

LENGTHS = (9, 6, 3, 1, 8)


def prompts(side="left") -> Batch:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, 50, (length,), generator=generator).tolist() for length in LENGTHS]
    return Batch(inputs=text_inputs(rows, side=side), labels=torch.tensor([0, 1, 0, 1, 0]))


def plain(model, batch) -> torch.Tensor:
    with torch.no_grad():
        return model(**batch.inputs).logits[:, -1]


@pytest.fixture(params=FAMILIES)
def model(request):
    return tiny_model(request.param)


def test_the_last_token_alone_gives_the_plain_logits(model):
    batch = prompts()
    last = split_prefix(model, batch)
    assert last.length == 1
    assert last.labels.tolist() == [0, 1, 0, 1, 0]
    with torch.no_grad():
        found = Downstream(model)(**last.inputs)
    assert found == pytest.approx(plain(model, batch), abs=2e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_the_blocks_above_a_site_give_the_plain_logits(model, whole):
    batch = prompts()
    rows = batch if whole else split_prefix(model, batch)
    states = read_states(Downstream(model), rows, blocks=[0, 1, 2])
    assert states[0].shape == (5, 9 if whole else 1, 32)
    for block, state in states.items():
        above = Downstream(model, block=block)
        with torch.no_grad():
            found = above(**from_state(rows, state).inputs)
        assert found == pytest.approx(plain(model, batch), abs=2e-5), block


def test_a_few_tokens_are_columns_of_all(model):
    last = split_prefix(model, prompts())
    with torch.no_grad():
        every, some = Downstream(model)(**last.inputs), Downstream(model, vocabulary=[7, 3])(**last.inputs)
    assert some == pytest.approx(every[:, [7, 3]], abs=1e-5)


def test_gradients_are_those_of_the_whole_model(model):
    # In float64 transformers' own eager attention, which Gemma 2 needs, gives NaN for the padding of padded rows.
    eager = model.config._attn_implementation == "eager"
    model, tolerance = (model, 1e-4) if eager else (model.double(), 1e-9)
    batch, objective = prompts(), margin(positive=[7], negative=[3])
    sites = [f"blocks.{block}.resid_post" for block in range(3)]
    whole = site_gradients(model, batch, sites=sites, objective=objective, positions="last")
    last = site_gradients(Downstream(model), split_prefix(model, batch), sites=sites, objective=objective, positions="last")
    for site in sites:
        assert last[site].activations == pytest.approx(whole[site].activations, abs=tolerance)
        assert last[site].jacobians == pytest.approx(whole[site].jacobians, abs=tolerance)


def test_rows_can_be_taken_before_and_after(model):
    chosen = torch.tensor([3, 0])
    batch = prompts()
    last = split_prefix(model, batch)
    with torch.no_grad():
        found = Downstream(model)(**last.take(chosen).inputs)
    assert found == pytest.approx(plain(model, batch)[chosen], abs=2e-5)


def test_nothing_is_left_behind_even_after_an_error():
    model = tiny_model("llama")
    batch = prompts()
    before = plain(model, batch)
    last = split_prefix(model, batch)
    above = Downstream(model, block=1)
    with pytest.raises(RuntimeError):
        above(**(last.inputs | {"state": torch.zeros(5, 1, 7)}))
    assert all("forward" not in block.__dict__ for block in model.model.layers)
    assert torch.equal(plain(model, batch), before)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_prompts_that_do_not_end_at_the_last_token_are_refused():
    model = tiny_model("llama")
    with pytest.raises(PositionError, match=r'padded on the right.*side="left"'):
        split_prefix(model, prompts("right"))
    with pytest.raises(PositionError, match="pad them on the left"):
        Downstream(model)(**prompts("right").inputs)


def test_a_hook_on_what_is_skipped_is_refused():
    model = tiny_model("llama")
    rows = split_prefix(model, prompts())
    state = read_states(Downstream(model), rows, blocks=[1])[1]
    handle = model.model.layers[0].mlp.register_forward_hook(lambda module, args, output: None)
    with pytest.raises(HookedSiteError, match=r"block 0, 'mlp', .*from 2 on"):
        Downstream(model, block=1)(**from_state(rows, state).inputs)
    handle.remove()


def test_the_recorders_that_transformers_leaves_behind_do_not_count():
    model = tiny_model("llama")
    batch = prompts()
    with torch.no_grad():
        model(**batch.inputs, output_hidden_states=True)
    assert any(block._forward_hooks for block in model.model.layers)
    rows = split_prefix(model, batch)
    state = read_states(Downstream(model), rows, blocks=[1])[1]
    with torch.no_grad():
        found = Downstream(model, block=1)(**from_state(rows, state).inputs)
    assert found == pytest.approx(plain(model, batch), abs=2e-5)


def test_a_block_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="block 3 of a model of 3 blocks"):
        Downstream(tiny_model("llama"), block=3)
    model = tiny_model("llama")
    with pytest.raises(ConfigError, match="without its state"):
        Downstream(model, block=1)(**split_prefix(model, prompts()).inputs)
