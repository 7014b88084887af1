"""What a core costs: streaming QR factors, side by side with the ways in which one would write it without them.

Four routes to one thing, the singular values of H J^T and the rank-8 projector of its activation side (arXiv:2602.22600), for
centred activations H [N, D] and Jacobians J [N, D] of one output:

* ``factored``: ``Moments.update`` and ``Moments.core``, that is, R_H and R_J by streaming QR and the SVD of R_H R_J^T [D, D].
* ``covariance float64``, ``covariance float32``: what an informed user writes. Eigen-factors L_H L_H^T = H^T H and
  L_J L_J^T = J^T J, the SVD of L_H^T L_J. As cheap as the first, but it squares the condition.
* ``naive``: the formula as it stands. H J^T [N, N], and its SVD. The other routes' errors are differences from this one.

A second table streams N samples that never lie in memory together, in flat memory, and sets the time against a floor: the
operations of the two QRs, 2 N D^2 each, at the rate of this machine's matrix product.

Every measurement is a process of its own with one thread. Time is CPU time (``time.process_time``), peak memory is ``ru_maxrss``
less that of a process that only imports the same things and makes the same inputs.

    python benchmarks/extraction.py                      the committed settings (some minutes, most of them the naive route's)
    python benchmarks/extraction.py --quick              smaller ones
    python benchmarks/extraction.py --out FILE.json      also writes FILE.json, and the tables as FILE.md
"""

from __future__ import annotations

import os

# Before torch is imported: it reads them once.
if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bench_tools import markdown_table, seconds
from torch import Tensor

from invariscope.cores import Moments
from invariscope.storage import environment_facts, write_json, write_text

Row = dict[str, Any]

ROUNDS = 8
MAX_RANK = 8
TOLERANCE = 1e-8  # of the agreement between the factored and the naive route
SMALL = 2000  # up to this N a cell is measured three times
MATMUL_SIZE = 2048
KEPT_ERROR = 0.01  # relative: a singular value that is off by more is lost


def chunk_of(dim: int) -> int:
    """How many rows a QRFactor of this width folds at once: with chunks of this size, one fold a chunk."""
    return max(4096, 4 * dim)


# ---- inputs


def spectrum(dim: int, rank: int, smallest: float) -> Tensor:
    """``rank`` large scales, a gap, and a tail down to ``smallest``."""
    head = torch.linspace(1.0, 0.5, rank, dtype=torch.float64)
    tail = torch.logspace(-1.3, torch.tensor(smallest).log10().item(), dim - rank, dtype=torch.float64)
    return torch.cat([head, tail])


def make_inputs(num: int, dim: int, rank: int, seed: int) -> tuple[Tensor, Tensor]:
    """H with a mean and condition 1e8, J with condition 1e2; they share the leading subspace and nothing else."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    basis_h = torch.linalg.qr(normal(dim, dim)).Q
    basis_j = torch.linalg.qr(torch.cat([basis_h[:, :rank], normal(dim, dim - rank)], 1)).Q
    mixing_h = spectrum(dim, rank, 1e-8)[:, None] * basis_h.T
    mixing_j = spectrum(dim, rank, 1e-2)[:, None] * basis_j.T
    h, j = torch.empty(num, dim, dtype=torch.float64), torch.empty(num, dim, dtype=torch.float64)
    mean = normal(dim)
    # In small pieces: a temporary as large as the inputs would hide the measured route's memory behind its own peak.
    for start in range(0, num, 256):
        part = slice(start, min(start + 256, num))
        h[part] = normal(part.stop - start, dim) @ mixing_h + mean
        j[part] = normal(part.stop - start, dim) @ mixing_j
    return h, j


def stream_inputs(num: int, dim: int, rank: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of H and J, made when they are asked for."""
    generator = torch.Generator().manual_seed(seed)
    scale_h, scale_j = spectrum(dim, rank, 1e-4), spectrum(dim, rank, 1e-2)
    chunk = chunk_of(dim)
    h, j = torch.empty(chunk, dim, dtype=torch.float64), torch.empty(chunk, dim, dtype=torch.float64)
    for start in range(0, num, chunk):
        size = min(chunk, num - start)
        for rows, scale in ((h, scale_h), (j, scale_j)):
            rows.normal_(generator=generator).mul_(scale)
        yield h[:size], j[:size]


# ---- the routes: H, J, rank -> singular values over N, and an orthonormal basis of the activation side


def factored(h: Tensor, j: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    moments = Moments(h.shape[1])
    for part in zip(h.split(chunk_of(h.shape[1])), j.split(chunk_of(h.shape[1])), strict=True):
        moments.update(*part)
    core = moments.core(rank, projection="activation")
    return core.singular_values, core.write


def covariance(h: Tensor, j: Tensor, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    h, j = h.to(dtype), j.to(dtype)
    h = h - h.mean(0)

    def eigen_factor(gram: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(gram)
        return vectors * values.clamp(min=0).sqrt()

    left, right = eigen_factor(h.T @ h), eigen_factor(j.T @ j)
    a, sigma, _ = torch.linalg.svd(left.T @ right)
    return sigma / len(h), torch.linalg.qr(left @ a[:, :rank]).Q


def naive(h: Tensor, j: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    h = h - h.mean(0)
    u, sigma, _ = torch.linalg.svd(h @ j.T, full_matrices=False)
    return sigma / len(h), torch.linalg.qr(h.T @ u[:, :rank]).Q


ROUTES: dict[str, Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]] = {
    "factored": factored,
    "covariance float64": lambda h, j, rank: covariance(h, j, rank, torch.float64),
    "covariance float32": lambda h, j, rank: covariance(h, j, rank, torch.float32),
    "naive": naive,
}


# ---- one cell, in a process of its own


def peak_mebibytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def warm_up() -> None:
    """Load the kernels, so that neither time nor memory counts what is paid once a process."""
    for dtype in (torch.float64, torch.float32):
        x = torch.eye(96, dtype=dtype) + 0.01
        _ = torch.linalg.svd(x @ x.T), torch.linalg.qr(x), torch.linalg.eigh(x)


def run_cell(route: str, num: int, dim: int, rank: int, seed: int, repeats: int) -> Row:
    """``inputs`` and ``stream inputs`` only make them; their peak is what the others' is compared with."""
    torch.set_num_threads(1)
    warm_up()
    if route == "stream":
        return run_stream(num, dim, rank, seed)
    if route == "stream inputs":
        for _ in stream_inputs(min(num, 2 * chunk_of(dim)), dim, rank, seed):
            pass
        return {"peak": peak_mebibytes()}
    h, j = make_inputs(num, dim, rank, seed)
    if route == "inputs":
        return {"peak": peak_mebibytes()}
    found: list[tuple[Tensor, Tensor]] = []
    times = [seconds(lambda: found.append(ROUTES[route](h, j, rank))) for _ in range(repeats)]
    sigma, basis = (one.tolist() for one in found[0])
    return {"cpu_seconds": statistics.median(times), "peak": peak_mebibytes(), "sigma": sigma, "basis": basis}


def run_stream(num: int, dim: int, rank: int, seed: int) -> Row:
    moments = Moments(dim)
    spent = sum(seconds(moments.update, h, j) for h, j in stream_inputs(num, dim, rank, seed))
    spent += seconds(moments.core, rank, "activation")
    peak = peak_mebibytes()
    # After the peak is read, and the three things in turns, because a shared machine's speed changes from second to second.
    generator = torch.Generator().manual_seed(seed)
    square = torch.rand(MATMUL_SIZE, MATMUL_SIZE, dtype=torch.float64, generator=generator)
    updates, matmuls, qrs, qr_operations = 0.0, 0.0, 0.0, 0.0
    for h, j in stream_inputs(ROUNDS * chunk_of(dim), dim, rank, seed):
        updates += seconds(moments.update, h, j)
        matmuls += seconds(torch.matmul, square, square)
        for columns in (dim + 1, dim):
            rows = chunk_of(dim) + columns
            stack = torch.rand(columns, rows, dtype=torch.float64, generator=generator).T
            tau = torch.empty(columns, dtype=torch.float64)
            qrs += seconds(lambda out: torch.geqrf(out[0], out=out), (stack, tau))
            qr_operations += 2 * rows * columns**2 - 2 / 3 * columns**3
    matmul_rate = ROUNDS * 2 * MATMUL_SIZE**3 / matmuls
    floor_operations = 2 * 2 * num * dim**2
    return {
        "cpu_seconds": spent,
        "peak": peak,
        "matmul_gigaflops": matmul_rate / 1e9,
        "floor_seconds": floor_operations / matmul_rate,
        "share_of_floor": floor_operations / matmul_rate / spent,
        "qr_share_of_time": qrs / updates,
        "qr_share_of_matmul_rate": qr_operations / qrs / matmul_rate,
        "qr_operations_over_floor": qr_operations / (2 * 2 * ROUNDS * chunk_of(dim) * dim**2),
    }


def measure(**cell: str | int) -> Row:
    print(f"measuring {cell['route']}, N = {cell['num']:,} ...", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, __file__, "--cell", json.dumps(cell)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"extraction.py: the process that measures {cell} ended with status {done.returncode}; see above")
    return json.loads(done.stdout)


# ---- the tables


def compare_routes(num: int, common: Row, repeats: int) -> list[Row]:
    """One row a route at one N."""
    repeats = repeats if num <= SMALL else 1
    base = measure(route="inputs", num=num, repeats=1, **common)["peak"]
    cells = {route: measure(route=route, num=num, repeats=repeats, **common) for route in ROUTES}
    reference = cells["naive"]
    sigma = torch.tensor(reference["sigma"], dtype=torch.float64)
    # H is centred: it has at most N - 1 directions.
    carried = min(num - 1, common["dim"])
    rows = []
    for route, cell in cells.items():
        error = (torch.tensor(cell["sigma"], dtype=torch.float64)[:carried] - sigma[:carried]).abs()
        lost = (error > KEPT_ERROR * sigma[:carried]).nonzero()
        num_kept = int(lost[0]) if len(lost) else carried
        bases = [torch.tensor(one["basis"], dtype=torch.float64) for one in (cell, reference)]
        difference = bases[0] @ bases[0].T - bases[1] @ bases[1].T
        memory, fewest = cell["peak"] - base, cells["factored"]["peak"] - base
        rows.append(
            {
                "num": num,
                "route": route,
                "repeats": repeats,
                "cpu_seconds": cell["cpu_seconds"],
                "cpu_over_factored": cell["cpu_seconds"] / max(cells["factored"]["cpu_seconds"], 1e-9),
                "peak_mebibytes": memory,
                "peak_over_factored": memory / fewest if fewest > 0 else None,
                "sigma_error": float(error.max() / sigma[0]),
                "projector_error": float(torch.linalg.matrix_norm(difference, 2)),
                "num_carried": carried,
                "num_kept": num_kept,
                "smallest_kept": float(sigma[num_kept - 1] / sigma[0]) if num_kept else None,
            }
        )
    return rows


def stream_row(num: int, common: Row) -> Row:
    base = measure(route="stream inputs", num=num, repeats=1, **common)["peak"]
    cell = measure(route="stream", num=num, repeats=1, **common)
    cell["peak_mebibytes"] = cell.pop("peak") - base
    return {"num": num} | cell


def render(result: Row) -> str:
    """The result as Markdown: two tables, what limits the second, and the machine."""
    settings, machine = result["settings"], result["machine"]
    rank = settings["rank"]

    def ratio(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    def kept(row: Row) -> str:
        share = f"{row['num_kept']} of {row['num_carried']}"
        return share if row["smallest_kept"] is None else f"{share}, down to {row['smallest_kept']:.0e} σ₁"

    first = markdown_table(
        (
            "route",
            "N",
            "CPU s",
            "times factored",
            "peak MiB",
            "times factored",
            "error, σ / σ₁",
            f"error, P_{rank}",
            "σ kept",
        ),
        [
            (
                row["route"],
                f"{row['num']:,}",
                f"{row['cpu_seconds']:.3g}",
                ratio(row["cpu_over_factored"]),
                f"{row['peak_mebibytes']:.0f}",
                ratio(row["peak_over_factored"]),
                "reference" if row["route"] == "naive" else f"{row['sigma_error']:.0e}",
                "reference" if row["route"] == "naive" else f"{row['projector_error']:.0e}",
                kept(row),
            )
            for row in result["extraction"]
        ],
    )
    second = markdown_table(
        ("N", "CPU s", "µs a sample", "peak MiB", "floor, s", "floor / CPU", "LAPACK's QR / update", "QR's rate / matmul's"),
        [
            (
                f"{row['num']:,}",
                f"{row['cpu_seconds']:.3g}",
                f"{row['cpu_seconds'] / row['num'] * 1e6:.1f}",
                f"{row['peak_mebibytes']:.0f}",
                f"{row['floor_seconds']:.3g}",
                f"{row['share_of_floor']:.0%}",
                f"{row['qr_share_of_time']:.0%}",
                f"{row['qr_share_of_matmul_rate']:.0%}",
            )
            for row in result["streaming"]
        ],
    )
    last = result["streaming"][-1]
    limit = (
        f"At N = {last['num']:,}, {last['qr_share_of_time']:.0%} of an update is LAPACK's Householder QR (`geqrf`), at "
        f"{last['qr_share_of_matmul_rate']:.0%} of the matrix product's {last['matmul_gigaflops']:.0f} GFLOP/s, doing "
        f"{last['qr_operations_over_floor']:.2f} times the floor's operations: every chunk is stacked on the old triangle."
    )
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    facts = f"{machine['cpu']}, one thread; {machine['platform']}; {versions}."
    above_first = f"**Four routes to one core**, D = {settings['dim']}, one output a sample, float64 inputs:"
    above_second = f"**Streaming**, chunks of {settings['chunk']}, D = {settings['dim']}, one output a sample:"
    return "\n\n".join([above_first, first, above_second, second, limit, f"Measured on: {facts}\n"])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="N = 500 and 2000, 10 000 and 100 000 streamed, each measured once")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="of the first table (500 2000 8000)")
    parser.add_argument("--stream", type=int, nargs="+", metavar="N", help="of the second table (10000 100000 1000000)")
    parser.add_argument("--dim", type=int, default=576, metavar="D", help="width of the site (576)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (0)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where the result goes; the tables go beside it as .md")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.sizes = given.sizes or ([500, 2000] if given.quick else [500, 2000, 8000])
    given.stream = given.stream or ([10_000, 100_000] if given.quick else [10_000, 100_000, 1_000_000])
    if given.dim < 4:
        parser.error(f"--dim {given.dim}; expected at least 4, half of them for the core; give a larger one")
    given.rank = min(MAX_RANK, given.dim // 2)
    if (fewest := min(*given.sizes, *given.stream)) < given.rank + 2:
        parser.error(f"N = {fewest}; expected at least {given.rank + 2} for a core of rank {given.rank}; give a larger one")
    if given.out is not None and given.out.suffix != ".json":
        parser.error(f"--out {given.out}; expected a name that ends in .json; the tables get the same name with .md")
    return given


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    if given.cell is not None:
        print(json.dumps(run_cell(**json.loads(given.cell))))
        return 0
    common = {"dim": given.dim, "rank": given.rank, "seed": given.seed}
    repeats = 1 if given.quick else 3
    torch.set_num_threads(1)
    result = {
        "schema_version": 1,
        "benchmark": "extraction",
        "settings": common | {"chunk": chunk_of(given.dim), "sizes": given.sizes, "stream": given.stream},
        # The kernel's release may carry the name of a provider's machine.
        "machine": environment_facts() | {"platform": f"{platform.system()} {platform.machine()}"},
        "extraction": [row for num in given.sizes for row in compare_routes(num, common, repeats)],
        "streaming": [stream_row(num, common) for num in given.stream],
    }
    print(render(result))
    if given.out is not None:
        write_json(given.out, result)
        write_text(given.out.with_suffix(".md"), render(result))
    ours = [row for row in result["extraction"] if row["route"] == "factored"]
    errors = [row[name] for row in ours for name in ("sigma_error", "projector_error")]
    agreed = max(errors) <= TOLERANCE
    print(f"factored and naive differ by at most {max(errors):.0e}: {'within' if agreed else 'MORE THAN'} {TOLERANCE:.0e}")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
