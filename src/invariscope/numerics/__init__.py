"""Linear algebra and resampling that everything above stands on: tensors in, tensors out, no models."""

from invariscope.numerics.changepoints import (
    ChangePoint,
    Rise,
    change_point,
    crossing,
    lag,
    lag_over_seeds,
    steepest_rise,
)
from invariscope.numerics.factors import QRFactor, factored_svd
from invariscope.numerics.fourier import (
    FourierShares,
    OutputPhases,
    fourier_basis,
    output_phases,
    random_additive_baseline,
    single_frequency_shares,
)
from invariscope.numerics.kernel_alignment import cka_similarity, debiased_cka
from invariscope.numerics.operators import Operator, eigenvalue_error, fit_operator, match_eigenvalues
from invariscope.numerics.orbitals import Orbitals, orbitals
from invariscope.numerics.probes import Probe, ridge_probe
from invariscope.numerics.procrustes import fit_procrustes, procrustes, procrustes_similarity
from invariscope.numerics.rank_correlation import spearman, spearman_similarity
from invariscope.numerics.resampling import bootstrap_mean, estimate_mean, permuted_groups, split_groups
from invariscope.numerics.similarity import CCA, cca_similarity, fit_cca
from invariscope.numerics.subspaces import (
    chance_overlap,
    fix_signs,
    orthonormal_basis,
    overlap,
    overlap_similarity,
    principal_angles,
    random_subspace,
)

__all__ = [
    "CCA",
    "ChangePoint",
    "FourierShares",
    "Operator",
    "Orbitals",
    "OutputPhases",
    "Probe",
    "QRFactor",
    "Rise",
    "bootstrap_mean",
    "cca_similarity",
    "chance_overlap",
    "change_point",
    "cka_similarity",
    "crossing",
    "debiased_cka",
    "eigenvalue_error",
    "estimate_mean",
    "factored_svd",
    "fit_cca",
    "fit_operator",
    "fit_procrustes",
    "fix_signs",
    "fourier_basis",
    "lag",
    "lag_over_seeds",
    "match_eigenvalues",
    "orbitals",
    "orthonormal_basis",
    "output_phases",
    "overlap",
    "overlap_similarity",
    "permuted_groups",
    "principal_angles",
    "procrustes",
    "procrustes_similarity",
    "random_additive_baseline",
    "random_subspace",
    "ridge_probe",
    "single_frequency_shares",
    "spearman",
    "spearman_similarity",
    "split_groups",
    "steepest_rise",
]
