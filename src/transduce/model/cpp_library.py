"""The training kernels for CPUs (`cpp_kernels.cpp`), where there is a compiler.

They call the OpenMP runtime that torch has loaded: two runtimes' threads would compete for the
cores.
"""

from functools import cache
from typing import Final

import torch

from transduce.io.compiler import Compiled, load_compiled

_SIGNATURES: Final = {
    "add_norm_forward": "ii ppp pp pp pp ll f uuuf > i",
    "add_norm_backward": "ii ppp pppp ppp ll uuuf > i",
    "attention_forward": "ii ppp ppp pp lllll fi > i",
    "attention_backward": "ii ppp ppp ppp pp lllll fi > i",
    "embed_forward": "ii pp pp p ll f uuuf > i",
    "embed_backward": "ii p p p ll i f uuuf > i",
    "relu_backward": "ii pp p ll > i",
    "logit_gradients": "ii ppp f ll > i",
    "r_drop_gradients": "ii pppp ff ll > i",
    "add_rounded": "ii pp l > i",
}
"""The parameters of every kernel; the first two are the number of threads, and the precision."""


class KernelLibrary(Compiled):
    """The compiled kernels, or why there are none."""

    def call(
        self, kernel: str, bfloat16: bool, *arguments: torch.Tensor | float | int | None
    ) -> None:
        """Run a kernel on as many threads as torch uses.

        Args:
            kernel: its name.
            bfloat16: whether its inputs and outputs are bfloat16; else they are float32.
            arguments: the others; a tensor stands for its memory, None for no tensor.

        Raises:
            MemoryError: if there is no memory; what the kernel has written is then incomplete.
        """
        passed = [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in arguments]
        if getattr(self.library, kernel)(torch.get_num_threads(), bfloat16, *passed):
            raise MemoryError("the training kernels have no memory for this batch")


@cache
def load_kernels() -> KernelLibrary:
    """Return the kernels, compiled for this processor unless the user's cache has them."""
    return KernelLibrary(*load_compiled("transduce.model", "cpp_kernels.cpp", _SIGNATURES))
