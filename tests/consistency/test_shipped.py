"""The two language models that ship inside packages, as real as any: verified, encoded, extracted from."""

from __future__ import annotations

import pytest
import torch

from invariscope.cli.verify import PROMPTS
from invariscope.cores import Moments, sweep_layers
from invariscope.cores.sweep_layers import layer_moments
from invariscope.models import split_prefix
from invariscope.sites import choices, site_gradients, verify_model
from invariscope.tasks import balanced_agreement
from language_models import shipped

NAMES = (
    pytest.param("smollm2-135m", marks=pytest.mark.xdist_group("smollm2")),
    pytest.param("gemma3-270m", marks=pytest.mark.xdist_group("gemma3")),
)


@pytest.fixture(params=NAMES)
def lm(request):
    return shipped(request.param)


def test_our_way_is_plain_hugging_face(lm):
    found = verify_model(lm.model, [lm.encode(prompt) for prompt in PROMPTS])
    assert found.ok, found.table()
    assert found.worst <= 1e-5
    assert len(found.layers) == lm.num_layers + 2


def test_a_bos_token_stands_where_the_tokeniser_puts_one(lm):
    ids = lm.encode("The keys")
    assert (ids[0] == lm.tokenizer.bos_token_id) == (lm.name == "gemma3-270m")
    assert lm.pieces(ids)[-2:] == ["The", " keys"]
    assert (lm.bos == "none") == (lm.name == "smollm2-135m")


def test_the_last_token_s_gradient_is_the_whole_model_s(lm):
    pairs = balanced_agreement(num_train=12, num_heldout=12, seed=0).train.encode(lm.encode, pieces=lm.pieces)
    batches = pairs.batches(6)
    layer = lm.num_layers - 3
    site = f"blocks.{layer}.resid_post"
    found = layer_moments(lm.model, [split_prefix(lm.model, batch) for batch in batches], choices(), [layer])[layer]
    whole = Moments(lm.width)
    for batch in batches:
        rows = site_gradients(lm.model, batch, sites=[site], objective=choices(), positions="last")[site]
        whole.update(rows.activations, rows.jacobians, labels=rows.rows.labels)
    cosine = found.core(1, "adjoint").read[:, 0] @ whole.core(1, "adjoint").read[:, 0]
    assert float(cosine.abs()) > 1 - 1e-6
    assert float(found.singular_values[0]) == pytest.approx(float(whole.singular_values[0]), rel=1e-3)


def test_one_direction_turns_agreement(lm):
    layer = lm.num_layers - 1
    behaviour = balanced_agreement(num_train=60, num_heldout=36, seed=0)
    sweep = sweep_layers(lm, behaviour, layers=[layer], projections=("oblique",), num_random=2, num_arbitrary=1, progress=False)
    auc = {edit: sweep.effect(layer, edit).auc.value for edit in ("keep", "remove", "flip")}
    assert auc["keep"] >= 0.95
    assert auc["flip"] <= 0.1
    assert 0.1 < auc["remove"] < 0.9
    assert sweep.effect(layer, "flip", name="random").auc.value >= 0.9
    assert all(torch.isfinite(torch.tensor(one.value)) for one in sweep.effect(layer, "flip").transfers)
