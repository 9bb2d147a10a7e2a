"""How Sphinx makes a site of the Markdown files: `make docs`.

Sources are those files where they are, README.md and CHANGELOG.md included, so that a link between
two of them is right in the site as it is on GitHub. The links of README.md are absolute, since PyPI
shows it, too: the extension `readme` makes them relative.
"""

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_extensions")]
# Settings only name the database; nothing here connects to it.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

import pgqueue  # noqa: E402

project = "pgqueue"
copyright = "its contributors"
release = version = pgqueue.__version__

root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**",
                    "tests/benchmarks/RESULTS.md"]  # fmt: skip
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "pgqueue",
    "testproject",
    "docs/_site",
    "docs/_extensions",
]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "checks",
    "diagrams",
    "docstrings",
    "llms",
    "readme",
    "tables",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = [
    "myst.header"
]  # RESULTS.md is made by a program, a section for each benchmark.

# Docstrings have single backticks around code, as Markdown has.
default_role = "code"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Returns"]  # as text: they name no type
# Types in signatures are no links where they have no page here: no other site is asked.
nitpick_ignore_regex = [
    ("py:class", ".*"),
    ("py:obj", r"typing\..*"),
    ("py:exc", r"(django\..*|InvalidTaskBackend|ObjectDoesNotExist|TransactionManagementError)"),
]

html_theme = "furo"
html_title = "pgqueue"
html_extra_path = ["_site"]
html_copy_source = False
html_show_sphinx = False
# Indented blocks are what one types into a shell.
highlight_language = "text"
copybutton_prompt_text = "$ "
