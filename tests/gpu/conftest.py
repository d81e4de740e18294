"""Tests of what runs on a GPU alone: `make test-gpu`.

Without one, TRITON_INTERPRET=1 runs the kernels slowly in Triton's interpreter, and skips the rest.
"""

import os
from importlib import import_module

import pytest
from tests.gpu.device import DEVICE

from transduce.model import fused_layers


def pytest_configure() -> None:
    """Fail instead of skipping what this folder is for."""
    if DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET"):
        pytest.exit("tests/gpu needs a GPU that torch can use, or TRITON_INTERPRET=1", 2)


@pytest.fixture(autouse=True)
def interpreted_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, too, take the kernels in Triton."""
    triton_kernels = import_module("transduce.model.triton_kernels")
    monkeypatch.setattr(fused_layers, "_kernels", lambda _: triton_kernels)
