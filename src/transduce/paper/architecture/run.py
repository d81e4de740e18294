"""`transduce paper model`: a model found by its folder or its recipe, taken apart, and written."""

from pathlib import Path
from typing import NamedTuple

import torch

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
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
from transduce.paper.report import write_files
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
            texts = {
                file.name: model_svg(named.anatomy, title=title, ink="light"),
                f"{file.stem}-dark.svg": model_svg(named.anatomy, title=title, ink="dark"),
            }
        case ".html":
            sections = [
                Section("Drawn", model_svg(named.anatomy, title=title)),
                Section("Parts", table(HEAD, parts_rows(named.anatomy), numbers=NUMBERS)),
            ]
            texts = {file.name: page(title, sections)}
        case ".md":
            texts = {file.name: f"# {title}\n\n{parts_table(named.anatomy)}\n"}
        case _:
            raise ValueError(f"--out takes a file that ends in {', '.join(KINDS)}, not {file}")
    write_files(file.parent, texts)
    return [file.with_name(name) for name in texts]
