"""`` {explore}`weights cross` `` leads to a step of the explorer; `{explorer}` embeds it.

The explorer holds a trained model, which no build of the site trains: `docs/_build/explorer` has it
once the command of docs/paper/explorer.md was run. Until then links lead to that page. The training
of `{training}` is small and committed: benchmarks/watching.py recorded it, and its page is made
here, with the engine of this commit.
"""

import json
import re
from pathlib import Path
from urllib.parse import quote, urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

_ROOT = Path(__file__).parents[2]
EXTRA = _ROOT / "docs" / "_build" / "explorer"
LIVE = EXTRA / "live.html"
"""The exported page; it lies at the site's root."""

RECORD = _ROOT / "benchmarks" / "results" / "watching"
WATCHED = _ROOT / "docs" / "_build" / "training" / "training.html"
"""The page of the recorded training; it lies at the site's root."""

NUMBER = "three hundred and forty-two thousand and seven"
SENTENCE = "The animal didn't cross the street because it was too tired."
PARTS = ("encoder", "decoder", "cross")
_PANELS = {
    "ranking": "What does a token look at?",
    "ablation": "Take a head away",
    "next": "The next piece",
    "search": "Beam search",
}
"""The explorer's panels that are no step of a layer."""


def titles() -> dict[str, str]:
    """The title of every step by its id, as the page has them."""
    page = _ROOT / "src" / "transduce" / "web" / "page"
    steps = re.findall(r'id: "([\w-]+)",\s+title: "(.+?)",', (page / "steps.js").read_text("utf-8"))
    return {**dict(steps), **_PANELS}


def fragment(target: str) -> str:
    """The address of "STEP" or "STEP PART" within the page.

    Raises:
        ValueError: if the explorer has no such step or part.
    """
    step, _, part = target.partition(" ")
    if step not in titles() or part not in ("", *PARTS):
        raise ValueError(f"the explorer has no step {target!r}")
    default = "cross" if step in ("next", "search") else "decoder" if step == "mask" else "encoder"
    query = {"part": part or default, "layer": 2, "head": 1, "step": step, "sentence": SENTENCE}
    return urlencode(query, quote_via=quote)


class Explore(SphinxRole):
    """A link to a step."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link: into the explorer if it is there, else to the page that tells how."""
        self.env.note_reread()  # the explorer may come or go between two builds
        place = fragment(self.text)
        if LIVE.is_file():
            uri = f"{'../' * self.env.docname.count('/')}live.html#{place}"
        else:
            uri = self.env.app.builder.get_relative_uri(self.env.docname, "paper/explorer")
        title = titles()[self.text.split()[0]]
        return [nodes.reference(self.rawtext, title, refuri=uri, internal=True)], []


class Explorer(SphinxDirective):
    """The explorer within a page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a frame with the page, or a note: the directive's content."""
        self.env.note_reread()
        if not LIVE.is_file():
            return [nodes.note("", *self.parse_content_to_nodes())]
        # Without a step: the frame would scroll this page to it.
        address = f"live.html#sentence={quote(SENTENCE)}"
        return [_frame(self.env.docname, address, "The explorer: every number of a sentence")]


class Training(SphinxDirective):
    """The recorded training within a page."""

    def run(self) -> list[nodes.Node]:
        """Return a frame with the page."""
        address = f"training.html#update=60&part=cross&layer=2&sentence={quote(NUMBER)}"
        return [_frame(self.env.docname, address, "A training to watch, checkpoint by checkpoint")]


def _frame(docname: str, address: str, title: str) -> nodes.Node:
    source = f"{'../' * docname.count('/')}{address}"
    frame = f'<iframe class="explorer" src="{source}" loading="lazy" title="{title}"></iframe>'
    return nodes.raw("", frame, format="html")


def write_training() -> None:
    """Make the page of the recorded training."""
    from transduce.web.page import render  # imports torch

    description = json.loads((RECORD / "page.json").read_text("utf-8"))
    WATCHED.parent.mkdir(parents=True, exist_ok=True)
    page = render(description, (RECORD / "weights.bin").read_bytes())
    WATCHED.write_text(page, encoding="utf-8")


def _publish(app: Sphinx, _config: object) -> None:
    write_training()
    app.config.html_extra_path.append(str(WATCHED.parent))
    if LIVE.is_file():
        app.config.html_extra_path.append(str(EXTRA))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and the directive."""
    app.add_role("explore", Explore())
    app.add_directive("explorer", Explorer)
    app.add_directive("training", Training)
    app.connect("config-inited", _publish)
    return {"parallel_read_safe": True}
