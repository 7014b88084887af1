"""Device maps: the same numbers through accelerate, and one line for a map that does not work."""

from __future__ import annotations

import accelerate
import pytest
import torch

from invariscope.cores import collect_moments, sweep_layers
from invariscope.errors import ConfigError, ForeignFileError
from invariscope.models import fingerprint, load_language_model
from invariscope.sites import choices, verify_model
from invariscope.tasks import Pair, PairSet
from tiny_language_models import save_tiny_folder

PARTS = ("model.embed_tokens", "model.rotary_emb", *(f"model.layers.{i}" for i in range(3)), "model.norm", "lm_head")
EVERY_PART = dict.fromkeys(PARTS, "cpu")
NOUNS = ("key", "lamp", "door", "coin")


def pairs() -> PairSet:
    found = []
    for noun in NOUNS:
        for adjective in ("the old", "the new"):
            found.append(Pair(prompt=f"{adjective} {noun}s", answers="are", foils="is", group=f"{adjective} {noun}"))
            found.append(Pair(prompt=f"in {adjective} {noun}", answers="is", foils="are", group=f"{adjective} {noun}"))
    return PairSet(found, name="number")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def factors_of(lm):
    batches = pairs().encode(lm.encode).batches(5)
    site = "blocks.1.resid_post"
    return collect_moments(lm.model, batches, sites=[site], objective=choices(), positions="last")[site]


def sweep_of(lm):
    return sweep_layers(lm, pairs(), layers=[1, 2], projections=("oblique",), num_random=1, num_arbitrary=1, progress=False)


@pytest.fixture(scope="module")
def plain(folder):
    lm = load_language_model(folder)
    return factors_of(lm), sweep_of(lm)


def check_equal(lm, plain) -> None:
    factors, sweep = plain
    assert verify_model(lm.model, [lm.encode("the old key and the lamp"), lm.encode("the doors")]).worst <= 1e-5
    found = factors_of(lm)
    assert torch.equal(found.singular_values, factors.singular_values)
    assert torch.equal(found.core(1).write, factors.core(1).write)
    assert found.provenance == factors.provenance
    assert sweep_of(lm) == sweep


@pytest.mark.parametrize("device_map", [{"": "cpu"}, "auto", EVERY_PART], ids=["one device", "auto", "every part"])
def test_a_device_map_changes_no_number(folder, plain, device_map):
    check_equal(load_language_model(folder, device_map=device_map), plain)


def test_what_accelerate_wraps_around_every_part_changes_no_number_and_stays(folder, plain):
    # Over several devices each part moves its inputs; forced, it does so on one.
    lm = load_language_model(folder)
    accelerate.dispatch_model(lm.model, EVERY_PART, main_device="cpu", force_hooks=True)
    wrapped = [module for module in lm.model.modules() if hasattr(module, "_hf_hook")]
    forwards = [module.__dict__["forward"] for module in wrapped]
    assert len(wrapped) >= len(PARTS)
    check_equal(lm, plain)
    assert [module.__dict__["forward"] for module in wrapped] == forwards


@pytest.mark.parametrize(
    ("device_map", "given"),
    [
        ("sideways", "device_map 'sideways' for "),
        ({"": "nowhere"}, "device_map {'': 'nowhere'} for "),
        ({}, "device_map {} for "),
    ],
)
def test_a_device_map_that_does_not_work_is_one_line(folder, device_map, given):
    with pytest.raises(ConfigError) as caught:
        load_language_model(folder, device_map=device_map)
    assert caught.value.given.startswith(given)
    assert "which transformers cannot load so (" in caught.value.given
    assert caught.value.expected == "'auto', a device, or a device for every part of the model"
    assert caught.value.do == "correct it, or leave it out"
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_not_blamed_on_the_device_map(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ForeignFileError, match=r"which transformers cannot load \(.*check the files"):
        load_language_model(tmp_path, device_map={"": "cpu"})


def test_weights_that_stay_on_the_disk_are_refused(folder):
    with pytest.raises(
        ConfigError, match=r"which leaves some weights outside the devices' memory; expected weights that are all on a device"
    ):
        load_language_model(folder, device_map=EVERY_PART | {"model.layers.1": "disk"})


def test_one_device_is_either_a_device_or_a_map(folder):
    with pytest.raises(ConfigError, match=r"device 'cpu' and device_map \{'': 'cpu'\}; expected one of the two; leave one out"):
        load_language_model(folder, device="cpu", device_map={"": "cpu"})
    one, other = (load_language_model(folder, **{name: "cpu"}).model for name in ("device", "device_map"))
    assert fingerprint(one) == fingerprint(other)
