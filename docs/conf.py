"""Sphinx configuration: MyST-NB pages whose code is executed, the API from docstrings, result tables from results/."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "invariscope"
author = "The invariscope authors"
project_copyright = "2026, The invariscope authors"
version = release = installed_version("invariscope")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "api", "results"]
exclude_patterns = ["_build", "_ext", "jupyter_execute"]

# Pages are executed on every build, from nothing: a cache keyed by the page's text would not see that the library changed.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 180
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "invariscope"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
html_show_sphinx = False
