"""docs/flags.md: each row's setting can be set and changes the recipe, each option exists."""

import re
from pathlib import Path

import pytest
from tests.conftest import Transduce

from transduce.config import differences, load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "flags.md"
ROWS = [
    (cells[0].replace("`", ""), cells[1].strip("` "))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `-")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
]
SETTINGS = [row for row in ROWS if not row[1].startswith("transduce ")]
OPTIONS = [row for row in ROWS if row[1].startswith("transduce ")]


def test_every_flag_of_train_has_a_row():
    """Those of train.py as of its last commit, with the older names of two."""
    flags = {flag for flags, _ in ROWS for flag in flags.split(", ")}
    named = """-data_pkl -train_path -val_path -epoch -b --batch_size -d_model -d_inner_hid -d_k
        -d_v -n_head -n_layers -warmup --n_warmup_steps -lr_mul -seed -dropout -embs_share_weight
        -proj_share_weight -scale_emb_or_prj -output_dir -use_tb -save_mode -no_cuda
        -label_smoothing"""

    assert set(named.split()) <= flags


@pytest.mark.parametrize(("flag", "setting"), SETTINGS)
def test_the_setting_is_taken(flag: str, setting: str):
    needed = {"tokenizer.shared=false": ["model.tie=decoder"]}.get(setting, [])
    key = setting.partition("=")[0]
    before = load_recipe("base", needed)

    assert key in differences(before, load_recipe("base", [*needed, setting]))


@pytest.mark.parametrize(("flag", "option"), OPTIONS)
def test_the_option_exists(flag: str, option: str, transduce: Transduce):
    _, command, name = option.split()
    text = transduce(command, "--help").out

    assert re.search(rf"^ +(-\w, )?{name.lower()}\b", text, re.MULTILINE | re.IGNORECASE)
