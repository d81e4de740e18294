"""Tests of what runs on a GPU alone: `make test-gpu`.

Without one, TRITON_INTERPRET=1 runs the kernels slowly in Triton's interpreter, and skips the rest.
"""

import os

import pytest
from tests.gpu.device import DEVICE


def pytest_configure() -> None:
    """Fail instead of skipping what this folder is for."""
    if DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET"):
        pytest.exit("tests/gpu needs a GPU that torch can use, or TRITON_INTERPRET=1", 2)
