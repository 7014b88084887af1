"""Coordinates of a language model head by head, beside where its heads attend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.batch import Batch, text_inputs
from invariscope.experiments.imir_transformers.config import Config
from invariscope.experiments.imir_transformers.findings import Correlation, HeadFinding, LanguageFindings
from invariscope.experiments.kept import keep_record
from invariscope.manifold import InductionCoordinates, InductionPatterns, induction_coordinates, induction_patterns
from invariscope.models import LanguageModel, load_language_model
from invariscope.numerics import spearman
from invariscope.numerics.resampling import quantile_interval
from invariscope.storage.records import from_json_record
from invariscope.tasks import derive_seed

__all__ = ["compare_heads", "language_job"]

NUM_TOP = 10
"""Heads that attend most as induction heads."""
CANDIDATES = 0.1
"""Share of all heads among which they are looked for."""
ROWS_AT_ONCE = 8


def language_job(*, config: dict[str, Any], folder: str) -> Any:
    """The language model, as a job of JSON values (:mod:`invariscope.parallel`), kept in ``folder``."""
    study = from_json_record(Config, config)
    path = Path(folder) / "runs" / f"language-{study.language_model.replace('/', '--')}.json"
    return keep_record(path, LanguageFindings, lambda: _measure(study))


def _measure(study: Config) -> LanguageFindings:
    lm = load_language_model(study.language_model, attention="eager")

    def generator(purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(study.seeds[0], "imir-transformers", purpose))

    tokens = _ordinary_tokens(lm)
    shape = (study.read_sequences, 2 * study.pattern_period)
    rows = tokens[torch.randint(len(tokens), shape, generator=generator("reads"))]
    batches = [Batch(inputs=text_inputs(part.tolist())) for part in rows.split(ROWS_AT_ONCE)]
    patterns = induction_patterns(
        lm.model,
        tokens,
        num_sequences=study.pattern_sequences,
        period=study.pattern_period,
        generator=generator("patterns"),
    )
    found = induction_coordinates(lm.model, tokens=tokens, batches=batches)
    return compare_heads(found, patterns, name=lm.name, generator=generator("bootstrap"), num_bootstrap=study.num_bootstrap)


def _ordinary_tokens(lm: LanguageModel) -> Int[Tensor, "n"]:
    special = set(lm.tokenizer.all_special_ids)
    rows = int(lm.model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]  # every model of transformers has it
    return torch.tensor([token for token in range(min(rows, len(lm.tokenizer))) if token not in special])


def compare_heads(
    found: InductionCoordinates,
    patterns: InductionPatterns,
    *,
    name: str,
    generator: torch.Generator,
    num_bootstrap: int,
) -> LanguageFindings:
    """Coordinates beside patterns.

    Args:
        found: with α of what layers read. patterns: of the same model.
        name: of it. generator, num_bootstrap: of intervals and nulls.
    """
    assert found.alpha is not None
    assert found.alpha_read is not None
    layers = torch.tensor([layer for layer, _ in found.heads])
    match, best = found.matches().max(0)
    previous, induction = patterns.previous.mean(0), patterns.induction.mean(0)
    gamma = found.gamma.z

    def correlation(scores: Float[Tensor, "N"], seen: Float[Tensor, "N"]) -> Correlation:
        drawn = torch.randint(len(scores), (num_bootstrap, len(scores)), generator=generator)
        low, high = quantile_interval(_spearman(scores[drawn], seen[drawn]), 0.95)
        null = _spearman(
            torch.stack([scores[_within(layers, generator)] for _ in range(num_bootstrap)]), seen.expand(num_bootstrap, -1)
        )
        return Correlation(
            value=float(_spearman(scores[None], seen[None])),
            low=low,
            high=high,
            null_mean=float(null.mean()),
            null_high=float(null.quantile(0.975)),
        )

    num_top = min(NUM_TOP, len(match) // 2)
    num_candidates = max(num_top, round(CANDIDATES * len(match)))

    def share(scores: Tensor, seen: Tensor) -> float:
        candidates = set(scores.topk(num_candidates).indices.tolist())
        return len(candidates & set(seen.topk(num_top).indices.tolist())) / num_top

    rows = len(patterns.induction)
    again = [
        share(match, patterns.induction[torch.randint(rows, (rows,), generator=generator)].mean(0)) for _ in range(num_bootstrap)
    ]
    low, high = quantile_interval(torch.tensor(again, dtype=torch.float64), 0.95)
    shuffled = [share(match[_within(layers, generator)], induction) for _ in range(num_bootstrap)]
    return LanguageFindings(
        name=name,
        heads=tuple(
            HeadFinding(
                layer=layer,
                head=head,
                alpha=float(found.alpha.excess[index]),
                alpha_read=float(found.alpha_read.excess[index]),
                match=float(match[index]),
                best="{}.{}".format(*found.heads[int(best[index])]) if float(match[index]) > 0 else "",
                gamma=float(gamma[index]),
                previous=float(previous[index]),
                induction=float(induction[index]),
            )
            for index, (layer, head) in enumerate(found.heads)
        ),
        even=patterns.even,
        alpha=correlation(found.alpha.excess, previous),
        alpha_read=correlation(found.alpha_read.excess, previous),
        match=correlation(match, induction),
        gamma=correlation(gamma, induction),
        num_top=num_top,
        num_candidates=num_candidates,
        found=share(match, induction),
        found_low=low,
        found_high=high,
        found_null=sum(shuffled) / len(shuffled),
    )


def _spearman(a: Float[Tensor, "num N"], b: Float[Tensor, "num N"]) -> Float[Tensor, "num"]:
    return spearman(a.T, b.T)


def _within(layers: Int[Tensor, "N"], generator: torch.Generator) -> Int[Tensor, "N"]:
    """A shuffling of heads that leaves each in its layer."""
    drawn = torch.rand(len(layers), generator=generator, dtype=torch.float64)
    return (layers + drawn).argsort()
