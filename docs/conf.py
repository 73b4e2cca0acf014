"""How Sphinx builds these pages: `make docs`. Nothing here lists what is public; `extensions/reference.py` finds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import ctrlab
from ctrlab.cli.app import import_tensorflow

import_tensorflow()  # without its greetings
project = "ctrlab"
version = release = ctrlab.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "docstrings", "reference"]
exclude_patterns = ["build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_inherit_docstrings = False  # those of Keras and the standard library are not written for these pages
autodoc_member_order = "bysource"
autodoc_typehints, napoleon_attr_annotations = "none", False  # the docstrings give types, with shapes
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # attributes are a list in their class, and not documented twice
default_role = "py:obj"
nitpicky = True

html_theme = "furo"
html_title = "ctrlab"
html_show_sphinx = html_show_copyright = False
