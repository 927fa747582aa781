"""Sphinx configuration: `make docs` builds the site with warnings as errors."""

import inspect
import re
from importlib.metadata import version as installed

from sphinx.util.inspect import signature, stringify_signature

project = "Approximate posteriors you can trust"
author = copyright = "the contributors"
version = release = installed("trusted-posteriors")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build"]
smartquotes = False  # what is in tables is to be copied as it is
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = "Trusted posteriors"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # room for code and tables: these pages have next to nothing to list at the side
    "secondary_sidebar_items": {
        "start": ["page-toc"],
        "families/*": [],
        "gallery/*": [],
        "index": [],
    },
}
ALONE = """aims bambi calibration clusters extending from_pm_sample index model_kinds papers peers
start trust words"""
html_sidebars = {page: [] for page in ALONE.split()}  # which have no pages below them

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's parameter lists say the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# pages are run at every build, from the packages as they are; an error in a cell fails the build
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_output_stderr = "remove"  # PyTensor on this machine's BLAS

# inventories need the network: `make docs DOCS_INTERSPHINX=1`
intersphinx_mapping = {}
linkcheck_timeout = 20
linkcheck_ignore = [r"https://doi\.org/.*"]  # publishers refuse robots


STAR = re.compile(r"(?<![\w*\\])\*(?=\w)")


def escape_stars(app, what, name, obj, options, lines):
    """Shapes are written (N, *shape): outside literals the star would start an emphasis."""
    for i, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [p if re.search(r"\w\*", p) else STAR.sub(r"\\*", p) for p in parts[::2]]
        lines[i] = "``".join(parts)


def signature_of_init(app, what, name, obj, options, shown, returned):
    """Classes with what one gives them, not `*args, **kwargs` of a base's `__new__`."""
    if not inspect.isclass(obj):
        return None
    if getattr(obj, "_is_protocol", False):
        return "", None  # nobody makes one
    if not re.search(r"\(\*args, \*\*kwargs\)|\b_\w+=", shown or ""):
        return None
    found = signature(obj)
    public = [p for name, p in found.parameters.items() if not name.startswith("_")]
    text = stringify_signature(found.replace(parameters=public), show_annotation=False)
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text), None


def setup(app):
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("autodoc-process-docstring", escape_stars, priority=100)  # before numpydoc
