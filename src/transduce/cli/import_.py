"""transduce import."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import SourceLanguage, TargetLanguage, app, print_stderr, print_stdout


@app.command("import")
def import_(
    model: Annotated[
        Path, Argument(help="Folder of a Hugging Face Marian model, or its name on the hub.")
    ],
    out: Annotated[
        Path | None,
        Option("--out", "-o", help="Model folder to write, atomically [default: models/NAME]."),
    ] = None,
    source_lang: SourceLanguage = None,
    target_lang: TargetLanguage = None,
) -> None:
    """Convert a Marian model, to translate with, inspect and fine-tune.

    No code of the folder is executed: weights are read from safetensors, or from
    pytorch_model.bin with weights_only.

    Examples:

    \b
      transduce import Helsinki-NLP/opus-mt-en-de
      transduce import opus-mt-en-de --out models/en-de
      transduce train --from models/en-de --source mine.en --target mine.de
    """
    out = out or Path("models") / model.resolve().name
    if out.exists():
        raise ValueError(f"{out} already exists: name another folder for the model")

    from transduce.export.hub import fetch_model, is_hub_id
    from transduce.export.importer import import_marian

    with TemporaryDirectory() as temporary:
        folder = model
        if not model.exists() and is_hub_id(str(model)):
            folder = Path(temporary) / model.name
            folder.mkdir()
            fetch_model(str(model), folder, on_file=print_stderr)
        bundle = import_marian(folder, source=source_lang, target=target_lang)
    bundle.save(out)
    if bundle.languages.missing:
        print_stderr("WARNING: its languages are unknown: name them by `transduce relabel`")
    print_stdout(f"model: {out}")
