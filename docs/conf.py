"""How Sphinx builds these pages: `make docs`. Nothing is fetched from the network."""  # noqa: INP001 - a script

import os
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # the API page imports TensorFlow

from sphinx.application import Sphinx

import mixdown

project = "mixdown"
author = "the mixdown authors"
release = version = mixdown.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"mixdown {release}"
html_show_copyright = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "both"


def setup(app: Sphinx) -> None:
    """Read docstrings as they are written: code stands between single backticks."""
    app.connect("autodoc-process-docstring", _code)


def _code(_app: Sphinx, _what: str, _name: str, _it: object, _options: object, lines: list[str]) -> None:
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)(\w?)", _literal, line) for line in lines]


def _literal(found: re.Match[str]) -> str:
    return f"``{found[1]}``" + (f"\\ {found[2]}" if found[2] else "")
