"""folded_logits: the last row of the plain forward and all its gradients, and refusals where tables do not tell."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from invariscope.errors import ConfigError, HookedSiteError, ShapeError
from invariscope.models import Transformer, TransformerConfig, check_foldable, folded_logits

FIELDS: dict[str, Any] = {"vocab_size": 7, "context_length": 6, "width": 8, "num_heads": 2, "mlp_width": (0, 12), "num_layers": 2}
CHOICES: dict[str, dict[str, Any]] = {
    "two heads": {},
    "one head": {"num_heads": 1},
    "heads differ": {"num_heads": (1, 4), "head_width": (5, 3)},
    "more heads first": {"num_heads": (3, 1), "head_width": 4},
    "no positions": {"positions": "none"},
    "no positions, one head": {"positions": "none", "num_heads": 1},
    "no MLP": {"mlp_width": 0},
    "biases, final norm, GELU": {"mlp_bias": True, "unembedding_bias": True, "final_norm": True, "activation": "gelu"},
    "the study": {"num_heads": 1, "activation": "relu", "num_outputs": 5, "initial_std": "width", "embedding_std": 0.5},
}


def build(**choices: Any) -> Transformer:
    model = Transformer(TransformerConfig(**(FIELDS | choices)), generator=torch.Generator().manual_seed(0)).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def draw(length: int = 6, *, num: int = 5, vocab: int = 7) -> Tensor:
    return torch.randint(0, vocab, (num, length), generator=torch.Generator().manual_seed(1))


def gradients(model: Transformer, logits: Tensor) -> dict[str, Tensor]:
    # A loss in which every logit counts differently, so that no error of a gradient cancels.
    answers = torch.arange(len(logits)) % logits.shape[1]
    loss = F.cross_entropy(logits, answers) + (logits * torch.arange(logits.numel()).view(logits.shape)).sum() / 50
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("length", [6, 4, 1])
def test_logits_and_every_gradient_are_those_of_the_plain_forward(name: str, length: int) -> None:
    model = build(**CHOICES[name])
    found, plain = folded_logits(model, draw(length)), model(draw(length))[:, -1]
    assert found.shape == plain.shape
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-10)
    by_tables, wanted = gradients(model, found), gradients(model, plain)
    assert len(wanted) == len(list(model.parameters()))
    for weight, gradient in wanted.items():
        torch.testing.assert_close(by_tables[weight], gradient, rtol=0, atol=1e-9, msg=weight)


def test_in_float32_and_in_the_size_of_the_study_they_differ_by_less_than_1e_5() -> None:
    shape = {"vocab_size": 69, "num_outputs": 59, "context_length": 20, "width": 128, "mlp_width": (0, 512)}
    config = TransformerConfig(**(FIELDS | CHOICES["the study"] | shape))
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    tokens = draw(20, num=64, vocab=69)
    found, plain = folded_logits(model, tokens), model(tokens)[:, -1]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-5)
    by_tables, wanted = (
        torch.autograd.grad(F.cross_entropy(logits, torch.arange(64) % 59), list(model.parameters())) for logits in (found, plain)
    )
    for one, other in zip(by_tables, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_scores_that_an_exponential_does_not_survive_do_no_harm() -> None:
    model = build(num_heads=1)
    with torch.no_grad():
        for block in model.blocks:
            block.attention.query_key_value.weight[:16] *= 30
        query, key, _ = model.blocks[0].attention.query_key_value.weight.chunk(3)
        scores = (model.token_embedding @ query.T @ key @ model.token_embedding.T) / 8**0.5
    # exp overflows at 709 in float64.
    assert scores.max() > 1000 > -1000 > scores.min()
    found, plain = folded_logits(model, draw()), model(draw())[:, -1]
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-9)
    for weight, gradient in gradients(model, plain).items():
        torch.testing.assert_close(gradients(model, folded_logits(model, draw()))[weight], gradient, rtol=0, atol=1e-7)


def test_a_repeated_token_counts_as_often_as_it_stands_there() -> None:
    model = build()
    tokens = torch.tensor([[3, 3, 3, 3, 3, 3], [3, 1, 3, 1, 1, 3]])
    torch.testing.assert_close(folded_logits(model, tokens), model(tokens)[:, -1], rtol=0, atol=1e-10)


def test_rows_do_not_depend_on_the_other_rows_of_the_batch() -> None:
    model = build()
    alone = torch.cat([folded_logits(model, row[None]) for row in draw()])
    torch.testing.assert_close(folded_logits(model, draw()), alone, rtol=0, atol=1e-12)


def test_a_step_without_gradients_and_int32_tokens_give_the_same() -> None:
    model = build()
    with torch.no_grad():
        found = folded_logits(model, draw().int())
    assert not found.requires_grad
    torch.testing.assert_close(found, folded_logits(model, draw()).detach(), rtol=0, atol=0)


def test_frozen_weights_have_no_gradient_and_the_others_the_same() -> None:
    model = build()
    wanted = gradients(model, model(draw())[:, -1])
    frozen = ("token_embedding", "blocks.0.attention.query_key_value.weight")
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    logits = folded_logits(model, draw())
    # The derivative of the loss of `gradients`.
    logits.backward((logits.detach().softmax(1) - torch.eye(7).double()[:5]) / 5 + torch.arange(35).double().view(5, 7) / 50)
    for name, parameter in model.named_parameters():
        if name in frozen:
            assert parameter.grad is None
        else:
            torch.testing.assert_close(parameter.grad, wanted[name], rtol=0, atol=1e-9)


def test_a_second_derivative_is_an_error_and_no_number() -> None:
    model = build()
    [first] = torch.autograd.grad(folded_logits(model, draw()).square().sum(), [model.token_embedding], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.square().sum().backward()


def test_twice_the_same_numbers_to_the_bit() -> None:
    model = build().float()
    runs = [gradients(model, folded_logits(model, draw())) for _ in range(3)]
    for one, other in pairwise(runs):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_neither_tokens_nor_weights_nor_modes_nor_hooks_are_changed() -> None:
    model = build().train()
    model.blocks[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens = draw()
    kept = tokens.clone()
    folded_logits(model, tokens).sum().backward()
    assert torch.equal(tokens, kept)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (model.training, model.blocks[0].training, model.blocks[1].training) == (True, True, False)
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"num_layers": 1, "mlp_width": 0}, "num_layers = 1"),
        ({"num_layers": 3, "mlp_width": (0, 4, 4)}, "num_layers = 3"),
        ({"norm": "pre"}, "norm = ('pre', 'pre')"),
        ({"norm": ("none", "post")}, "norm = ('none', 'post')"),
        ({"mlp_width": 12}, "mlp_width of the first layer = 12"),
        ({"attention_bias": (False, True)}, "attention_bias = (False, True)"),
        ({"dropout": 0.1}, "dropout = 0.1"),
        ({"causal": False}, "causal = False"),
        ({"vocab_size": 1000}, "heads x context_length x vocab_size² = 12000000"),
        ({"dropout": 0.1, "causal": False}, "causal = False, dropout = 0.1"),
    ],
)
def test_a_configuration_that_does_not_fold_is_refused_with_every_choice_that_is_in_the_way(
    choices: dict[str, Any], said: str
) -> None:
    config = TransformerConfig(**(FIELDS | choices))
    with pytest.raises(ConfigError) as caught:
        check_foldable(config)
    assert caught.value.given == f"a forward by tables with {said}"
    assert caught.value.expected.startswith("two causal layers without norm, attention bias and dropout, no MLP in the first")
    assert "last_logits" in caught.value.do
    assert "\n" not in str(caught.value)
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ConfigError, match="a forward by tables"):
        folded_logits(model, draw())


@pytest.mark.parametrize("name", CHOICES)
def test_configurations_that_fold_are_accepted(name: str) -> None:
    check_foldable(TransformerConfig(**(FIELDS | CHOICES[name])))


@pytest.mark.parametrize(
    "name", ["embed", "blocks.0.attn_pattern", "blocks.0.attention", "blocks.0", "blocks.1.mlp_post", "unembedding", "logits"]
)
@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward"])
def test_a_hook_anywhere_is_refused_by_name_until_it_is_gone(name: str, kind: str) -> None:
    model = build()
    handle = getattr(model.get_submodule(name), f"register_{kind}_hook")(lambda *_: None)
    with pytest.raises(HookedSiteError) as caught:
        folded_logits(model, draw())
    assert caught.value.given == f"a hook on {name!r} during folded_logits"
    assert caught.value.expected.startswith("no hook")
    assert caught.value.do == "call model(tokens), on which every hook fires"
    handle.remove()
    assert folded_logits(model, draw()).shape == (5, 7)


def test_every_site_is_refused_and_so_is_the_model_itself() -> None:
    model = build()
    for name in model.site_names():
        handle = model.get_submodule(name).register_forward_hook(lambda *_: None)
        with pytest.raises(HookedSiteError, match=name):
            folded_logits(model, draw())
        handle.remove()
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(HookedSiteError, match="a hook on the model during folded_logits"):
        folded_logits(model, draw())


@pytest.mark.parametrize("shape", [(5, 7), (5,), (5, 0), (2, 3, 4)])
def test_tokens_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        folded_logits(build(), torch.zeros(shape, dtype=torch.long))
    assert caught.value.given == f"tokens of shape {list(shape)}"
    assert "context length 6" in caught.value.expected


@pytest.mark.parametrize("positions", ["learned", "none"])
@pytest.mark.parametrize("token", [-1, 7])
def test_a_token_that_the_vocabulary_lacks_is_an_error_and_no_number(positions: str, token: int) -> None:
    tokens = draw()
    tokens[2, 3] = token
    with pytest.raises((RuntimeError, IndexError), match="out of"):
        folded_logits(build(positions=positions), tokens)
