"""Settings of Sphinx: `make docs`."""

from importlib.metadata import version as version_of

project = "Penstock"
author = "The Penstock authors"
copyright = "The Penstock authors"
version = release = version_of("penstock")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
# The fences of blocks carry words for tests/test_docs.py ("python no-run", "text output").
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_ivar = True  # Fields have descriptions of their own already.
add_module_names = False
html_theme = "alabaster"
html_theme_options = {
    "description": "Apache Flink's DataStream model for PySpark users",
    "page_width": "1080px",
    "fixed_sidebar": True,
}
html_show_sourcelink = False
