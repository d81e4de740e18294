"""Equations as MathML, which browsers draw themselves: in the page's colours, without a script.

docutils brings the translation from TeX. What it cannot read is an error of the page.
"""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)


def mathml(tex: str, *, block: bool) -> str:
    """Return the `<math>` element of an equation in TeX; a block of several lines is aligned."""
    lines = [" ".join(line.split()) for line in tex.strip().split("\\\\")]
    several = block and len(lines) > 1
    # docutils aligns at & within this environment alone.
    text = r"\begin{aligned}" + r"\\".join(lines) + r"\end{aligned}" if several else tex.strip()
    markup = latex2mathml.tex2mathml(" ".join(text.split()), as_block=block)
    assert isinstance(markup, str)
    return markup


def _written(writer: HTML5Translator, node: nodes.Element, *, block: bool) -> str:
    try:
        return mathml(node.astext(), block=block)
    except (MathError, SyntaxError) as error:
        _LOG.warning("an equation cannot be read: %s", error, location=node)
        return f"<code>{writer.encode(node.astext())}</code>"


def _inline(writer: HTML5Translator, node: nodes.Element) -> None:
    writer.body.append(_written(writer, node, block=False))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.Element) -> None:
    writer.body.append(f'<div class="equation">{_written(writer, node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that conf.py names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
