"""Does a model of a hidden chain carry the Bayes belief in its core, an internal model of the world and not a copy of the token?

A hidden chain emits tokens; the best predictor keeps the posterior over the hidden states, the *belief*. Two questions.
Reading: how well is the exact belief a linear function of the rank-2 core (hold-out R²), beside an untrained core and the code of
the last two tokens? The whole residual stream is no evidence: an untrained network's gives .6 to .9 already. Writing: map the
exact belief affinely into the core and set everything else at the site to its mean; does the model then predict as well as from
its own coordinates? The last token's code, a random subspace and an untrained model must not do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from invariscope.cores import Core, Moments, collect_moments, core_coordinates, divergence
from invariscope.cores.measure import measure_edits, site_rows
from invariscope.cores.metrics import estimate_metric
from invariscope.estimate import Estimate
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import BeliefFindings, WrittenFindings
from invariscope.experiments.markov_cores.subjects import BATCH, FINAL_NORM
from invariscope.models import Transformer, untrained
from invariscope.numerics.operators import fit_operator
from invariscope.numerics.resampling import estimate_mean
from invariscope.numerics.scores import cross_entropy_rows
from invariscope.positions import Rows, rows_of, select_positions
from invariscope.sites import edit_site, frozen
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.tasks import HiddenMarkovChain
from invariscope.tasks.task import SampledBatches, derive_seed
from invariscope.training import train

__all__ = ["HiddenSubject", "belief_job", "hidden_subjects"]

FIRST_TOKEN = 3
"""Before it the belief has hardly left its start, and two tokens say all there is."""
NUM_POINTS = 900

Code = Callable[[Int[Tensor, "B T"]], Float[Tensor, "B T c"]]


def belief_job(*, config: dict[str, Any], folder: str, chain: str, seed: int) -> Any:
    """Train one model of a hidden chain and measure it, as a job of JSON values (:mod:`invariscope.parallel`)."""
    study = from_json_record(Config, config)
    return to_json_record(_measure(*hidden_subjects(study, Path(folder), chain, seed)))


def hidden_subjects(study: Config, folder: Path, chain: str, seed: int) -> tuple[HiddenSubject, HiddenSubject]:
    """The model of one seed, trained unless the run's folder has it already, and its untrained twin."""
    task, runs = study.hidden_task(chain), folder / "runs" / chain
    settings = study.hidden.train
    [run] = train(task, study.hidden_model(chain), settings, seeds=[seed], folder=runs, engine="inline", progress=False)
    twin = untrained(run.model, torch.Generator().manual_seed(derive_seed(chain, seed, "untrained")))
    model, fresh = (HiddenSubject(study=study, task=task, seed=seed, model=model) for model in (run.model, twin))
    return model, fresh


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenSubject:
    """One model of a hidden chain, trained or not, and its data."""

    study: Config
    task: HiddenMarkovChain
    seed: int
    model: Transformer

    @property
    def arm(self) -> str:
        """The chain's name."""
        return self.task.name

    @property
    def rank(self) -> int:
        """Dimensions of the belief simplex."""
        return self.task.num_hidden - 1

    @property
    def resid_mid(self) -> str:
        """After the last attention."""
        return f"blocks.{self.study.hidden.num_layers - 1}.resid_mid"

    def batches(self, purpose: str, pool: str) -> SampledBatches:
        """Sequences for a purpose, the same for every seed."""
        num = self.study.evaluate_sequences
        return SampledBatches(self.task, num, batch_size=BATCH, seed=derive_seed(self.task.name, purpose), pool=pool)

    def heldout(self) -> SampledBatches:
        """Held-out sequences, the same for every seed."""
        return self.batches("heldout", "heldout")

    def generator(self, purpose: str) -> torch.Generator:
        """Of this seed and purpose alone."""
        return torch.Generator().manual_seed(derive_seed(self.task.name, self.seed, purpose))

    @functools.cached_property
    def moments(self) -> dict[str, Moments]:
        """At both sites."""
        sites = [self.resid_mid, FINAL_NORM]
        return collect_moments(self.model, self.batches("extraction", "train"), sites=sites, positions="all")

    def core(self, site: str) -> Core:
        """The adjoint core of the belief's dimension."""
        return self.moments[site].core(self.rank, "adjoint")

    def belief(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T k"]:
        """The exact belief; its last share follows from the others."""
        return self.task.beliefs(tokens)[..., :-1]


def _measure(subject: HiddenSubject, twin: HiddenSubject) -> BeliefFindings:
    metric = divergence()
    values, rows = measure_edits(
        subject.model,
        subject.heldout(),
        {"full": None},
        [metric],
        site=FINAL_NORM,
        positions="all",
        outputs_at="all",
    )
    mid = subject.resid_mid
    core, fresh = subject.core(mid), twin.core(mid)

    def read(one: HiddenSubject, site: str, function: Callable[[Tensor], Tensor]) -> Estimate:
        return _belief_r2(one, *site_rows(one.model, one.heldout(), function, site=site, positions="all"))

    return BeliefFindings(
        chain=subject.task.name,
        seed=subject.seed,
        divergence=estimate_metric(metric, values["full", metric.name], rows, subject.generator("divergence")),
        resid_mid=read(subject, mid, core.coordinates),
        final_norm=read(subject, FINAL_NORM, subject.core(FINAL_NORM).coordinates),
        untrained_resid_mid=read(twin, mid, fresh.coordinates),
        untrained_final_norm=read(twin, FINAL_NORM, twin.core(FINAL_NORM).coordinates),
        last_two_tokens=_belief_r2(subject, *_last_two(subject)),
        residual=read(subject, mid, _as_is),
        residual_without_core=read(subject, mid, _complement(core)),
        untrained_residual=read(twin, mid, _as_is),
        written=_written(subject, twin),
        points=_points(subject, core),
    )


def _as_is(x: Tensor) -> Tensor:
    return x


def _complement(core: Core) -> Callable[[Tensor], Tensor]:
    """Coordinates of what is orthogonal to the core: removing leaves D numbers of which only D - k are free."""
    outside = torch.linalg.svd(core.read, full_matrices=True).U[:, core.rank :]
    return lambda x: x @ outside.to(x)


def _flat(subject: HiddenSubject, code: Code, purpose: str = "heldout", pool: str = "heldout") -> Float[Tensor, "n c"]:
    """A code of the tokens at every token of a purpose's sequences, in (row, token) order."""
    return torch.cat([code(batch.inputs["tokens"]).flatten(0, 1).double() for batch in subject.batches(purpose, pool)])


def _last_two(subject: HiddenSubject) -> tuple[Float[Tensor, "n c"], Rows]:
    """The joint code of the last two tokens, its last column left out since all sum to one, with its rows."""
    # The first token has no code of two; it is not among those that are scored.
    code = _flat(subject, lambda tokens: F.pad(subject.task.last_tokens_code(tokens, 2)[..., :-1], (0, 0, 1, 0)))
    parts, first_row = [], 0
    for batch in subject.heldout():
        index = select_positions("all", shape=(batch.num_rows, batch.length))
        parts.append(rows_of(batch, index, first_row=first_row))
        first_row += batch.num_rows
    return code, Rows.concatenate(parts)


def _belief_r2(subject: HiddenSubject, x: Float[Tensor, "n c"], rows: Rows) -> Estimate:
    """Hold-out R² of the exact belief on x, over tokens from the fourth on; splits never break a sequence."""
    late = rows.t >= FIRST_TOKEN
    operator = fit_operator(
        x[late], _flat(subject, subject.belief)[late], groups=rows.groups[late], generator=subject.generator("belief")
    )
    return operator.r2_heldout


def _points(subject: HiddenSubject, core: Core) -> tuple[tuple[float, float, float, float], ...]:
    """Exact and read beliefs of some held-out tokens: the first two shares of each, from a map fitted on other sequences."""
    fitted, rows = core_coordinates(core, subject.model, subject.batches("extraction", "train"))
    late = rows.t >= FIRST_TOKEN
    operator = fit_operator(fitted[late], _flat(subject, subject.belief, "extraction", "train")[late], num_bootstrap=0)
    z, rows = core_coordinates(core, subject.model, subject.heldout())
    chosen = (rows.t >= FIRST_TOKEN).nonzero()[:, 0][:: max(1, int((rows.t >= FIRST_TOKEN).sum()) // NUM_POINTS)]
    both = torch.cat([_flat(subject, subject.belief)[chosen], operator.predict(z[chosen])], dim=1)
    return tuple((row[0], row[1], row[subject.rank], row[subject.rank + 1]) for row in both.tolist())


def _written(subject: HiddenSubject, twin: HiddenSubject) -> WrittenFindings:
    core = subject.core(subject.resid_mid)
    [random] = subject.moments[subject.resid_mid].controls(
        subject.rank, ["random"], num_random=1, generator=subject.generator("random")
    )["random"]
    belief = subject.belief
    runs = {
        "own": _write(subject, core, None),
        "belief": _write(subject, core, belief),
        "last_token": _write(subject, core, lambda tokens: F.one_hot(tokens, subject.task.vocab_size)[..., :-1].double()),
        "random": _write(subject, random, belief),
        "untrained": _write(twin, twin.core(subject.resid_mid), belief),
    }
    rows = runs["own"][1]
    assert rows.probabilities is not None, "a hidden chain knows its exact law"
    law = rows.probabilities.double()
    runs["optimum"] = (cross_entropy_rows(law.clamp_min(1e-300).log(), probabilities=law), rows)
    means = {
        name: estimate_mean(values, groups=rows.groups, generator=subject.generator(name), unit="nats")
        for name, (values, rows) in runs.items()
    }
    cost = estimate_mean(runs["belief"][0] - runs["own"][0], groups=rows.groups, generator=subject.generator("cost"), unit="nats")
    return WrittenFindings(**means, cost=cost)


def _write(subject: HiddenSubject, core: Core, code: Code | None) -> tuple[Float[Tensor, "n"], Rows]:
    """Exact cross-entropy of every held-out token when the core is all that is left at the site.

    Its coordinates are the model's own (no code), or an affine function of the code fitted on other sequences.
    """
    operator = None
    if code is not None:
        z, fit_rows = core_coordinates(core, subject.model, subject.batches("extraction", "train"))
        written = _flat(subject, code, "extraction", "train")
        operator = fit_operator(written, z, groups=fit_rows.groups, num_bootstrap=0)
    values, parts, first_row = [], [], 0
    with torch.no_grad(), frozen(subject.model):
        for batch in subject.heldout():
            tokens = batch.inputs["tokens"]
            edit: Callable[[Tensor], Tensor] = core.keep
            if operator is not None and code is not None:
                coordinates = operator.predict(code(tokens).flatten(0, 1).double())
                edit = functools.partial(_set_core, core, coordinates)
            index = select_positions("all", shape=(batch.num_rows, batch.length))
            rows = rows_of(batch, index, first_row=first_row)
            first_row += batch.num_rows
            with edit_site(subject.model, core.provenance.site, edit):
                logits = subject.model(**batch.inputs).flatten(0, 1)
            values.append(cross_entropy_rows(logits.double(), probabilities=rows.probabilities))
            parts.append(rows)
    return torch.cat(values), Rows.concatenate(parts)


def _set_core(core: Core, coordinates: Float[Tensor, "n k"], x: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
    """The mean, with these core coordinates."""
    return core.move(core.mean.to(x).expand_as(x), coordinates)
