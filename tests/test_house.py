"""The house rules that no linter knows: layout, docstrings, forbidden calls, commands, and that the import contracts bite."""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "invariscope"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAX_LINES = 400
# A file that is one idea and does not get shorter by being cut; each with the reason.
LONG_FILES: dict[str, str] = {}

# Modules whose tests stand somewhere else than at the mirrored place; each with the place.
TESTED_ELSEWHERE: dict[str, str] = {}

# Functions of torch that read the global random state unless they are given a generator.
DRAWS = {
    *("bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm"),
    *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "trunc_normal_", "uniform_"),
    *("kaiming_normal_", "kaiming_uniform_", "orthogonal_", "xavier_normal_", "xavier_uniform_"),
}
# What moves or reads a global random state, and what runs code while it reads a file.
FORBIDDEN_CALLS = {
    *("torch.load", "torch.save", "joblib.load", "joblib.dump"),
    *("torch.manual_seed", "torch.seed", "torch.initial_seed", "torch.set_rng_state", "random.seed", "np.random.seed"),
}
# Files that may call one of these, with a keyword that makes it safe.
SAFE_CALLS = {("models/lens_files.py", "torch.load"): "weights_only"}
FORBIDDEN_IMPORTS = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "random"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of an attribute chain; what is not a name becomes empty."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def tracked_files() -> list[Path]:
    """Every file that git tracks or would; outside a checkout, every file that is no build product."""
    asked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        files = [ROOT / name for name in asked.stdout.split("\0") if name]
    else:
        ignored = {line.strip("/\n") for line in (ROOT / ".gitignore").read_text().splitlines()}
        files = [
            path for path in ROOT.rglob("*") if not ignored & set(path.relative_to(ROOT).parts) and "_build" not in path.parts
        ]
    return [path for path in files if path.is_file() and path.suffix not in {".png", ".safetensors", ".pyc"}]


def public_list(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if "__all__" in map(dotted, targets):
            return node.value  # pyright: ignore[reportAttributeAccessIssue]  # only assignments have targets
    return None


def public_definitions(
    tree: ast.Module,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    listed = public_list(tree)
    hidden = set() if listed is None else {getattr(node, "name", "") for node in tree.body} - set(ast.literal_eval(listed))
    pending: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    while pending:
        prefix, owner = pending.pop()
        for node in owner.body:
            if owner is tree and getattr(node, "name", "") in hidden:
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    pending.append((f"{prefix}{node.name}.", node))


def is_overload(node: ast.AST) -> bool:
    return any(dotted(decorator).endswith(("overload", "setter")) for decorator in getattr(node, "decorator_list", ()))


def test_docstrings_begin_with_a_summary() -> None:
    wrong = []
    for path in MODULES:
        for name, node in [("the module", tree_of(path)), *public_definitions(tree_of(path))]:
            text = ast.get_docstring(node, clean=False)
            if is_overload(node) or (text and text[0] not in " \n" and text.split("\n\n")[0].rstrip()[-1] in ".:?)"):
                continue
            wrong.append(f"{name_of(path)}: {name}: no sentence at the start of the docstring: {(text or '')[:60]!r}")
    assert not wrong, "\n".join(wrong)


def test_files_are_short_enough_to_be_one_idea() -> None:
    long = {name_of(path) for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES}
    assert long == set(LONG_FILES), f"over {MAX_LINES} lines: {sorted(long)}; listed: {sorted(LONG_FILES)}"


def test_packages_list_their_public_names_by_hand() -> None:
    wrong = []
    for path in MODULES:
        if path.name != "__init__.py":
            continue
        names = public_list(tree_of(path))
        literal = isinstance(names, ast.List | ast.Tuple) and all(isinstance(name, ast.Constant) for name in names.elts)
        if not literal or len({ast.literal_eval(name) for name in names.elts}) != len(names.elts):
            wrong.append(name_of(path))
    assert not wrong, f"without an __all__ of different names, written out: {wrong}"


def forbidden_in(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if bad := FORBIDDEN_IMPORTS & {name.split(".")[0] for name in names}:
                yield f"line {node.lineno}: import of {', '.join(bad)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"(cuda|mps|xpu)(:\d+)?", node.value):
                yield f"line {node.lineno}: a device written out; it comes from the model or from the caller"
        elif isinstance(node, ast.Call):
            name, keywords = dotted(node.func), {keyword.arg for keyword in node.keywords}
            draws = name.rsplit(".", 1)[-1] in DRAWS and name.split(".")[0] not in {"rng", "np"}
            numpy_global = name.startswith("np.random.") and name != "np.random.default_rng"
            says = {keyword.arg for keyword in node.keywords if getattr(keyword.value, "value", None) is True}
            safe = path.is_relative_to(PACKAGE) and SAFE_CALLS.get((name_of(path), name), "") in says
            if (name in FORBIDDEN_CALLS and not safe) or numpy_global or "allow_pickle" in keywords:
                yield f"line {node.lineno}: {name}"
            elif draws and "generator" not in keywords:
                yield f"line {node.lineno}: {name} without generator="


def test_nothing_runs_code_from_files_moves_a_global_random_state_or_names_a_device() -> None:
    found = [f"{name_of(path)}: {sentence}" for path in MODULES for sentence in forbidden_in(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from random import shuffle",
        "x = torch.load(path)",
        "torch.manual_seed(0)",
        "x = torch.randn(3)",
        "x.normal_()",
        "np.random.shuffle(x)",
        "np.load(path, allow_pickle=True)",
        "x = x.to('cuda:0')",
    ],
)
def test_the_rule_above_notices(line: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f'"""A module."""\n{line}\n')
    assert len(list(forbidden_in(path))) == 1


def test_the_rule_above_lets_generators_pass(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("x = torch.randn(3, generator=generator)\nrng = np.random.default_rng(0)\ny = rng.normal(3)\n")
    assert list(forbidden_in(path)) == []


def has_tests(path: Path) -> bool:
    name, folder = name_of(path), ROOT / "tests" / path.parent.relative_to(PACKAGE)
    if path.name in {"__init__.py", "__main__.py"}:
        return True
    if name in TESTED_ELSEWHERE:
        return (ROOT / "tests" / TESTED_ELSEWHERE[name]).is_file()
    return any(folder.glob(f"test_{path.stem}.py")) or any(folder.glob(f"test_{path.stem}_*.py"))


def test_every_module_has_its_tests() -> None:
    missing = [name_of(path) for path in MODULES if not has_tests(path)]
    assert not missing, f"neither tests/.../test_NAME.py nor an entry in TESTED_ELSEWHERE: {missing}"


def test_no_file_names_this_machine_or_a_package_index() -> None:
    home = re.compile(r"(?<![\w.~/-])/(?:home|root|Users|work|opt)/\w")
    index = re.compile(r"pypi\.org/simple|pythonhosted\.org|download\.pytorch\.org|--(?:extra-)?index-url\s*=?\s*\S*:/")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if home.search(line) or index.search(line)
    ]
    assert not found, "\n".join(found)


def run_make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Without the flags and the level of a make that runs this suite.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", text, re.MULTILINE))


def test_every_make_command_in_the_texts_exists() -> None:
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / ".ci" / "run"]
    command = re.compile(r"(?:^\s*\$? ?|`|&& )make ([a-z]+)", re.MULTILINE)
    said = {(path.name, target) for path in texts for target in command.findall(path.read_text(encoding="utf-8"))}
    assert {("README.md", "demo"), ("README.md", "test"), ("index.md", "demo"), ("run", "docs")} <= said
    assert {target for _, target in said} <= make_targets()


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_makefile_explains_each_target() -> None:
    helped = run_make("help").stdout
    documented = set(re.findall(r"^make ([a-z]+)", helped, re.MULTILINE))
    assert documented == {"demo", "test", "lint", "docs", "bench", "oracle", "clean"} <= make_targets()


@pytest.mark.parametrize(
    ("python", "says"),
    [
        pytest.param(None, "expected Python 3.11 or newer; install it", id="missing"),
        pytest.param('case "$1" in -V) echo Python 3.9.1;; *) exit 1;; esac', "is Python 3.9.1; expected Python 3.11", id="old"),
        pytest.param('case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac', "apt-get install python3-venv", id="no venv"),
    ],
)
def test_make_says_what_is_wrong_with_the_interpreter(python: str | None, says: str, tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    if python is not None:
        interpreter.write_text(f"#!/bin/sh\n{python}\n")
        interpreter.chmod(0o755)
    made = run_make("demo", f"PYTHON={interpreter}", f"VENV={tmp_path / 'venv'}")
    assert made.returncode != 0
    assert says in made.stderr
    assert not (tmp_path / "venv").exists()


def test_an_interrupted_install_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    for stamp in ("python", "torch", "demo", "dev", "models"):
        (venv / f".stamp-{stamp}").touch()

    def plan() -> str:
        planned = run_make("-n", "demo", f"VENV={venv}", "PYTHON=python3")
        assert planned.returncode == 0, planned.stderr
        return planned.stdout

    assert "pip" not in plan(), "everything is stamped, and yet something would be installed"
    (venv / ".installing").touch()
    assert "-m venv --clear" in plan()
    assert plan().count("pip") >= 2, "torch and the package are not installed anew"


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_does_not_load_torch() -> None:
    code = """
import sys
sys.argv = ["invariscope", "--help"]
from invariscope.cli.main import main
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print("LOADED:", sorted({"torch", "scipy", "plotly", "joblib"} & set(sys.modules)))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout
    assert done.stdout.rstrip().endswith("LOADED: []")


def test_importing_the_package_does_not_load_torch() -> None:
    done = run_python("import sys, invariscope; assert 'torch' not in sys.modules; assert 'train' in dir(invariscope)")
    assert done.returncode == 0, done.stderr


# A forbidden line, the file of the package that it is put into, and the contract that must break.
VIOLATIONS = {
    "front door": ("import invariscope", "storage/intruder.py", "front door"),
    "front door, by name": ("from invariscope import train", "cores/intruder.py", "front door"),
    "upward": ("import invariscope.training", "numerics/intruder.py", "Data flows one way"),
    "upward, inside a function": ("def f():\n    from invariscope.cli import main", "report/intruder.py", "Data flows one way"),
    "sideways": ("from invariscope.models import Transformer", "tasks/intruder.py", "Data flows one way"),
    "sideways, floor 0": ("import invariscope.positions", "estimate.py", "Data flows one way"),
    "a package on no floor": ("", "attic/__init__.py", "Data flows one way"),
}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    # -P and the path: the copy is linted, never the installed package.
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"
    return subprocess.run([sys.executable, "-P", "-c", code], cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    shutil.copytree(PACKAGE, tmp_path / "src" / "invariscope", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_import_contracts_hold(house: Path) -> None:
    linted = lint_imports(house)
    assert linted.returncode == 0, linted.stdout
    assert "2 kept, 0 broken" in linted.stdout


@pytest.mark.parametrize("name", VIOLATIONS)
def test_the_import_contracts_bite(name: str, house: Path) -> None:
    line, file, contract = VIOLATIONS[name]
    target = house / "src" / "invariscope" / file
    target.parent.mkdir(exist_ok=True)
    with target.open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")
    linted = lint_imports(house)
    assert linted.returncode != 0, linted.stdout
    broken = [text for text in linted.stdout.splitlines() if "BROKEN" in text]
    # What enters by the front door also reaches every floor through it.
    assert any(contract in text for text in broken), linted.stdout
    assert len(broken) == 1 or contract == "front door", linted.stdout
