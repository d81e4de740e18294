"""Every block of shell or Python in the README and the site is run, or says why it cannot be."""

import pytest
from tests.conftest import Transduce
from tests.docs.blocks import ALL, Block, run_shell

RUN = [block for block in ALL if not block.not_run]
MARKED = 32
"""Blocks that cannot be run here: a new one is to be noticed."""


def of(language: str, *, slow: bool = False) -> list[Block]:
    return [block for block in RUN if block.language == language and block.slow == slow]


def test_the_blocks_that_are_not_run_are_few_and_say_why():
    marked = [block for block in ALL if block.not_run]

    assert len(marked) == MARKED, [str(block) for block in marked]
    assert all(len(block.not_run.split()) >= 3 for block in marked)


@pytest.mark.parametrize("block", of("sh"), ids=str)
@pytest.mark.usefixtures("place")
def test_shell_runs(block: Block, transduce: Transduce):
    run_shell(block.text, transduce)


@pytest.mark.slow
@pytest.mark.parametrize("block", of("sh", slow=True), ids=str)
@pytest.mark.usefixtures("place")
def test_shell_that_takes_longer_runs(block: Block, transduce: Transduce):
    if "transduce import" in block.text:
        transduce("export", "runs/mine", "--to", "huggingface", "--out", "opus-mt-en-de")

    run_shell(block.text, transduce)


@pytest.mark.parametrize("block", of("python"), ids=str)
@pytest.mark.usefixtures("place")
def test_python_runs(block: Block):
    program = compile(block.text, str(block), "exec")

    exec(program, {"__name__": "__page__"})
