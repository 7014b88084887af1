"""The bench for edits: unedited predictions are the model's, and places among few tokens are right."""

from __future__ import annotations

import pytest
import torch

from invariscope.batch import Batch, text_inputs
from invariscope.cores.edit_bench import EditBench, SweepSettings
from invariscope.sites import choices, margin
from tiny_language_models import tiny_model


def batches(labels=(0, 1, 1)) -> list[Batch]:
    rows = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
    answers = torch.tensor([[[3], [4]]] * 3)
    return [Batch(inputs=text_inputs(rows), labels=torch.tensor(labels), choices=answers)]


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama-grouped")


def bench(model, **settings) -> EditBench:
    quiet = [Batch(inputs=text_inputs([[1, 2, 3]]))]
    arbitrary = {"a/b": margin(positive=[20], negative=[21])}
    return EditBench.of(model, batches(), quiet, SweepSettings(objective=choices(), arbitrary=arbitrary, **settings))


def test_unedited_predictions_and_arbitrary_margins_are_the_model_s(model):
    found = bench(model)
    [batch] = batches()
    with torch.no_grad():
        plain = model(**batch.inputs).logits[:, -1]
    assert found.unedited == pytest.approx(plain.log_softmax(-1), abs=1e-4)
    assert found.arbitrary["a/b"] == pytest.approx(plain[:, 20] - plain[:, 21], abs=1e-4)
    assert found.unrelated_unedited.shape == (1, 50)


def test_margins_read_few_tokens_in_their_own_places(model):
    found = bench(model)
    assert found.vocabulary.ids == (3, 4, 20, 21)
    states = found.at(1)
    assert states.few[0].choices.tolist() == [[[0], [1]]] * 3
    with torch.no_grad():
        few = found.above(1, whole=False)(**states.few[0].inputs)
        whole = found.above(1, whole=True)(**states.prompts[0].inputs)
    assert few.shape == (3, 4)
    assert few == pytest.approx(whole[:, [3, 4, 20, 21]], abs=1e-5)


def test_edits_before_the_last_token_keep_whole_prompts(model):
    assert bench(model).prompts[0].length == 1
    assert bench(model, positions="all").prompts[0].length == 4
    assert bench(model, positions="all").at(0).prompts[0].inputs["state"].shape == (3, 4, 32)


def test_classes_are_two_where_labels_say_so(model):
    assert bench(model).two_classes
    plain = EditBench.of(
        model, [Batch(inputs=text_inputs([[1, 2]]))], (), SweepSettings(objective=margin(positive=[1], negative=[2]))
    )
    assert not plain.two_classes
    assert plain.rows.groups.tolist() == [0]
