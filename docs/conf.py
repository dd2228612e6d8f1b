"""How the documentation is built: `sphinx-build -W docs docs/_build`."""

from importlib import metadata

project = "branchpoint"
author = "The branchpoint authors"
try:
    release = metadata.version("branchpoint")
except metadata.PackageNotFoundError:
    release = "0"

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "A kernel that can be checkpointed, forked, rolled back"}
# The magics' and the commands' examples are no language that the highlighter knows.
highlight_language = "none"
