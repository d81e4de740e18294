from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from transduce.paper.plot import Ink, save_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_a_png_has_a_palette_and_the_colour_of_its_page(tmp_path: Path):
    image = pytest.importorskip("PIL.Image", reason="comes with matplotlib")
    pytest.importorskip("matplotlib")

    def draw(figure: "Figure", ink: Ink) -> None:
        figure.subplots().plot([1, 2], color=ink.lines[0])

    save_plot(tmp_path, "plot", draw)

    for name, paper in (("plot", (255, 255, 255)), ("plot-dark", (0x14, 0x17, 0x1C))):
        with image.open(tmp_path / f"{name}.png") as png:
            assert png.mode == "P"
            assert png.convert("RGB").getpixel((0, 0)) == paper
