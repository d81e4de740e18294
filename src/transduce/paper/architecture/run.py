"""`transduce paper model`: a model found by its folder or its recipe, taken apart, and written."""

from pathlib import Path
from typing import NamedTuple

import torch

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.io.streams import open_output
from transduce.model.transformer import Transformer
from transduce.paper.architecture.drawing import model_svg
from transduce.paper.architecture.parts import (
    HEAD,
    NUMBERS,
    Anatomy,
    parts_rows,
    parts_table,
    take_apart,
)
from transduce.visualization.page import Section, page, table

KINDS = (".svg", ".html", ".md")


class Named(NamedTuple):
    """A model's parts, and what it is called."""

    name: str
    anatomy: Anatomy


def named_model(model: str) -> Named:
    """Take a model apart: a trained one by its folder, else the one that a recipe describes.

    Args:
        model: a model's folder or a run's; or a recipe, such as "base" or a file of TOML.

    Raises:
        ValueError: if it is none of these, or the folder's model cannot be loaded.
    """
    if Path(model).is_dir():
        folder = Path(model).resolve()
        name = folder.parent.name if folder.name == "model" else folder.name  # a run's
        return Named(name, take_apart(Bundle.load(folder).model))
    recipe = load_recipe(model)
    with torch.device("meta"):  # shapes without numbers
        return Named(recipe.name, take_apart(Transformer(recipe.model)))


def write_model(file: Path, named: Named) -> list[Path]:
    """Write the drawing as SVG (for light pages, and FILE-dark.svg), or a page, or a table.

    Returns:
        The files that were written.

    Raises:
        ValueError: if the file's ending is none of `KINDS`.
    """
    title = f"Figure 1 of {named.name}"
    match file.suffix:
        case ".svg":
            dark = file.with_name(f"{file.stem}-dark.svg")
            texts = {
                file: model_svg(named.anatomy, title=title, ink="light"),
                dark: model_svg(named.anatomy, title=title, ink="dark"),
            }
        case ".html":
            sections = [
                Section("Drawn", model_svg(named.anatomy, title=title)),
                Section("Parts", table(HEAD, parts_rows(named.anatomy), numbers=NUMBERS)),
            ]
            texts = {file: page(title, sections)}
        case ".md":
            texts = {file: f"# {title}\n\n{parts_table(named.anatomy)}\n"}
        case _:
            raise ValueError(f"--out takes a file that ends in {', '.join(KINDS)}, not {file}")
    file.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with open_output(path) as stream:
            stream.write(text.encode())
    return list(texts)
