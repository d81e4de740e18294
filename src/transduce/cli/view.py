"""transduce view."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import ModelFolder, app, print_stdout
from transduce.io.streams import open_output

_FORMATS = {".html": "page", ".htm": "page", ".svg": "picture", ".json": "weights"}


@app.command()
def view(
    model: ModelFolder,
    sentence: Annotated[str, Argument(help="Sentence to translate.")],
    out: Annotated[
        Path, Option("--out", "-o", help="Output file, written atomically: .html, .svg, .json.")
    ],
    translation: Annotated[
        str | None, Option(help="Its translation [default: the model's own].")
    ] = None,
) -> None:
    """Visualize a model's attention weights as it translates a sentence.

    .html: a self-contained page with every head of every layer, and what each looks at for a piece
    that is clicked; .json: the same weights for programs; .svg: a picture of the last layer's
    cross-attention. Every other number, and heads taken away: `transduce export --to web`.

    Examples:

    \b
      transduce view runs/mine "A dog runs." --out map.html
      transduce view runs/mine "A dog runs." --translation "Ein Hund rennt." --out map.html
      transduce view runs/mine "A dog runs." --out map.svg
    """
    suffix = out.suffix.lower()
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for the page, as {out / 'map.html'}")
    if suffix not in _FORMATS:
        raise ValueError(f"--out must end in {', '.join(_FORMATS)}, not {out}")

    from transduce.bundle.bundle import Bundle
    from transduce.inference.recasing import recase
    from transduce.visualization.attention_page import attention_page, trace_attention
    from transduce.visualization.attention_view import attention_json, attention_svg

    with open_output(out) as file:
        bundle = Bundle.load(model)
        if translation is None:  # as `translate` would translate it
            sentence = recase(sentence, bundle.tokenizer).text
        match suffix:
            case ".svg":
                text = attention_svg(trace_attention(bundle, sentence, translation))
            case ".json":
                text = attention_json(trace_attention(bundle, sentence, translation)) + "\n"
            case _:
                text = attention_page(bundle, sentence, translation)
        file.write(text.encode())
    print_stdout(f"{_FORMATS[suffix]}: {out}")
