"""The directive ``{api}``: every public name of the package, from its docstring.

The names are ``invariscope.__all__``, so a name that is added there is documented without another step. They are grouped by
the part of the package that defines them. Docstrings are written to be read in an editor, where ``||A||_F`` and ``a * b``
are formulas; here they are kept from being taken for markup.
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PACKAGE = "invariscope"
CONSTANTS = "types and constants"

# Literals and roles are markup on purpose; what is between them is text.
MARKUP = re.compile(r"(``.+?``|:\w+(?::\w+)*:`[^`]+`|\*\*[^*\s][^*]*\*\*)")
MARKUP_LIKE = re.compile(r"\||\*|(?<=\w)_(?!\w)")


def plain_formulas(lines: list[str]) -> list[str]:
    """The lines of a docstring with the signs of formulas escaped; doctests and literal blocks as they are."""
    result: list[str] = []
    literal_from: int | None = None  # indentation of the paragraph that a literal block belongs to
    in_doctest = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if literal_from is not None and line.strip() and indent <= literal_from:
            literal_from = None
        if in_doctest or literal_from is not None:
            result.append(line)
            continue
        parts = MARKUP.split(line)
        parts[::2] = [MARKUP_LIKE.sub(lambda match: "\\" + match[0], part) for part in parts[::2]]
        result.append("".join(parts))
        if line.rstrip().endswith("::"):
            literal_from = indent
    return result


def short_names(signature: str | None) -> str | None:
    """A signature without the modules of its types: Sphinx leaves them in where a default is no literal."""
    return signature and re.sub(r"~(?:\w+\.)+(\w+)", r"\1", signature).replace("<factory>", "...")


def part_of(value: object) -> str:
    """The part of the package that defines ``value``: the word after the package's name."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    # Aliases of types say that they come from typing, plain values that they come from nowhere.
    return module.split(".")[1] if module.startswith(f"{PACKAGE}.") else CONSTANTS


def directives_of(package: ModuleType) -> list[str]:
    """The lines of reStructuredText that document every public name."""
    groups: dict[str, list[str]] = {}
    for name in package.__all__:
        value = getattr(package, name)
        part = part_of(value)
        if isinstance(value, ModuleType):
            lines = [f".. automodule:: {value.__name__}", "   :members:", "   :imported-members:", ""]
        elif part == CONSTANTS:
            lines = [f".. autodata:: {PACKAGE}.{name}", ""]
        elif inspect.isclass(value):
            bases = ["   :show-inheritance:"] if issubclass(value, Exception) else []
            lines = [f".. autoclass:: {PACKAGE}.{name}", "   :members:", *bases, ""]
        else:
            lines = [f".. autofunction:: {PACKAGE}.{name}", ""]
        groups.setdefault(part, []).extend(lines)
    return [line for part in sorted(groups) for line in (f".. rubric:: {part}", "   :heading-level: 2", "", *groups[part])]


class ApiDirective(SphinxDirective):
    """Documents ``invariscope.__all__``."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        """One section a part of the package."""
        # The page is Markdown, and docstrings are reStructuredText.
        lines = ["`````{eval-rst}", *directives_of(importlib.import_module(PACKAGE)), "`````"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, object]:
    """Register the directive and the escaping of formulas."""
    app.add_directive("api", ApiDirective)
    # Before napoleon (500), which then sees lines that are safe to wrap in markup of its own.
    app.connect(
        "autodoc-process-docstring",
        lambda app, what, name, obj, options, lines: lines.__setitem__(slice(None), plain_formulas(lines)),
        priority=400,
    )
    app.connect(
        "autodoc-process-signature",
        lambda app, what, name, obj, options, signature, returned: (short_names(signature), short_names(returned)),
    )
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
