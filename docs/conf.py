"""The site: Sphinx reads these pages as MyST; `make docs` builds it, warnings as errors.

Nothing in it comes from another host: equations are MathML, figures are drawn at build time by
`transduce paper`, and what our own directives do stands in `_ext/`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "transduce"
author = "the transduce authors"
copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "commands",
    "docstrings",
    "exercises",
    "explorer",
    "mathml",
    "measured",
    "notebook",
    "values",
]
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = "transduce"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_block"]
myst_heading_anchors = 4

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
# A name of the package is an import; its source is shown where it is at home.
viewcode_follow_imported_members = False
napoleon_custom_sections = ["Source"]
napoleon_use_rtype = False
maximum_signature_line_length = 72
python_display_short_literal_types = True
copybutton_exclude = ".linenos, .gp, .go"
