"""How the command line ends when memory runs out."""

from pathlib import Path

import pytest
from tests.conftest import Transduce

from transduce.inference.translator import Translator


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("could not create a primitive"), "lower --batch-tokens or --beam"),
        (MemoryError("a sentence of 9 pieces does not fit"), "a sentence of 9 pieces does not fit"),
    ],
)
def test_memory_that_runs_out_is_one_line_with_a_remedy(
    error: Exception, message: str, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    def load(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Translator, "load", load)

    result = transduce("translate", Path("model"), stdin=b"a\n")

    assert result.code == 1
    assert result.err.endswith(f"{message}\n")
    assert result.err.count("\n") == 1


def test_another_runtime_error_keeps_its_traceback(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    def load(*_: object, **__: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Translator, "load", load)

    with pytest.raises(RuntimeError, match="mat1"):
        transduce("translate", Path("model"), stdin=b"a\n")
