"""A language model of your own and a behaviour in a few lines: the core at two layers, tested, and a vector to take away.

python examples/your_own_model.py                      the model that ships as smollm2-135m
python examples/your_own_model.py MODEL [LAYER ...]     a folder, a .gguf file, a hub id; layers to look at
"""

from __future__ import annotations

import sys
import tempfile

import invariscope as iv
from invariscope.cores import behaviour_data, sweep_behaviour
from invariscope.tasks import parse_pairs

# After a mention of yesterday the model should say was, after one of now it should say is.
PAIRS = """prompt,answer,foil,group
Yesterday the shop,was,is,shop
Right now the shop,is,was,shop
Yesterday the old bridge,was,is,bridge
Right now the old bridge,is,was,bridge
Yesterday the weather,was,is,weather
Right now the weather,is,was,weather
Yesterday the road,was,is,road
Right now the road,is,was,road
Yesterday my neighbour,was,is,neighbour
Right now my neighbour,is,was,neighbour
Yesterday the library,was,is,library
Right now the library,is,was,library
Yesterday the kitchen,was,is,kitchen
Right now the kitchen,is,was,kitchen
Yesterday the market,was,is,market
Right now the market,is,was,market
"""


def main(words: list[str]) -> None:
    name, *layers = words or ["smollm2-135m"]
    lm = iv.load_language_model(name)
    chosen = [int(layer) for layer in layers] or [lm.num_layers // 2, lm.num_layers - 2]
    data = behaviour_data(lm, parse_pairs(PAIRS, name="tense"), layers=chosen, projections=("oblique",), num_random=2)
    sweep, cores = sweep_behaviour(lm, data, progress=False)
    print(sweep.table())
    print(*data.notes, sep="\n")

    layer = chosen[-1]
    core = cores[layer, "oblique", 1]
    # Steer with it by hand: flip the last token of one prompt and see what comes next.
    prompt = lm.tokenizer("Yesterday the garden", return_tensors="pt")
    plain = lm.model(**prompt).logits[0, -1]
    with iv.edit_site(lm.model, f"blocks.{layer}.resid_post", core.flip, positions="last") as report:
        flipped = lm.model(**prompt).logits[0, -1]
    was, now = lm.single_token(" was"), lm.single_token(" is")
    before, after = (float((found[was] - found[now]).detach()) for found in (plain, flipped))
    print(f"'Yesterday the garden', was - is: {before:+.2f} as it is, {after:+.2f} flipped at {report.num_positions} token")

    folder = iv.export_steering(core, tempfile.mkdtemp(), layer=layer, model_name=lm.name)
    print(f"the vector and how to use it elsewhere: {sorted(path.name for path in folder.iterdir())}")


if __name__ == "__main__":
    main(sys.argv[1:])
