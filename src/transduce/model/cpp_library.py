"""Compile and load the training kernels for CPUs (`cpp_kernels.cpp`), where there is a compiler.

The library is compiled once a processor, in seconds, and kept in the user's cache. It calls the
OpenMP runtime that torch has loaded: two runtimes' threads would compete for the cores.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import torch

from transduce.io.machine import processor_features, user_cache

_COMPILER: Final = "g++"
_FLAGS: Final = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-fvisibility=hidden"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
_TIMEOUT: Final = 120
"""Seconds that compiling may take."""

_TYPES: Final = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "u": ctypes.c_uint32,
    "f": ctypes.c_float,
}
_SIGNATURES: Final = {
    "add_norm_forward": "ii ppp pp pp pp ll f uuuf",
    "add_norm_backward": "ii ppp pppp ppp ll uuuf",
    "attention_forward": "ii ppp pp pp lllll fi",
    "attention_backward": "ii ppp pp ppp pp lllll fi",
    "embed_forward": "ii pp pp p ll f uuuf",
    "embed_backward": "ii p p p ll i f uuuf",
    "relu_backward": "ii pp p ll",
    "logit_gradients": "ii ppp f ll",
    "r_drop_gradients": "ii pppp ff ll",
    "add_rounded": "ii pp l",
}
"""The parameters of every kernel; the first two are the number of threads, and the precision."""


class KernelLibrary(NamedTuple):
    """The compiled kernels, or why there are none."""

    library: ctypes.CDLL | None
    reason: str
    """A clause for the person; empty if there are kernels."""

    def call(
        self, kernel: str, bfloat16: bool, *arguments: torch.Tensor | float | int | None
    ) -> None:
        """Run a kernel on as many threads as torch uses.

        Args:
            kernel: its name.
            bfloat16: whether its inputs and outputs are bfloat16; else they are float32.
            arguments: the others; a tensor stands for its memory, None for no tensor.
        """
        passed = [x.data_ptr() if isinstance(x, torch.Tensor) else x for x in arguments]
        getattr(self.library, kernel)(torch.get_num_threads(), bfloat16, *passed)


@cache
def load_kernels() -> KernelLibrary:
    """Return the kernels, compiled for this processor unless the user's cache has them."""
    if sys.platform != "linux":
        return KernelLibrary(None, "they are compiled on Linux only")
    compiler = shutil.which(_COMPILER)
    if compiler is None:
        return KernelLibrary(None, f"{_COMPILER}, which compiles them, is not installed")
    try:
        library = _load(compiler)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip().partition("\n")[0]
        return KernelLibrary(None, f"{_COMPILER} could not compile them ({reason})")
    for kernel, signature in _SIGNATURES.items():
        function = getattr(library, kernel)
        function.argtypes = [_TYPES[kind] for kind in signature.replace(" ", "")]
        function.restype = None
    return KernelLibrary(library, "")


def _load(compiler: str) -> ctypes.CDLL:
    source = files("transduce.model").joinpath("cpp_kernels.cpp").read_bytes()
    version = subprocess.check_output([compiler, "--version"], timeout=_TIMEOUT)
    depends_on = source, version, " ".join(_FLAGS).encode(), processor_features().encode()
    name = hashlib.sha256(b"\0".join(depends_on)).hexdigest()[:16] + ".so"
    folder = _private_folder()
    if folder and (folder / name).is_file():
        with suppress(OSError):  # damaged, or of another C library: compile it anew
            return ctypes.CDLL(str(folder / name))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        compiled = _compile(compiler, source, Path(scratch))
        library = ctypes.CDLL(str(compiled))  # stays loaded without its file
        if folder:
            compiled.replace(folder / name)
    return library


def _private_folder() -> Path | None:
    """Return the folder of the user's cache that nobody else can write to: what lies there is run.

    None if there is none, as without a home folder.
    """
    try:
        folder = user_cache(os.environ, system=sys.platform, home=Path.home()) / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    own = status.st_uid == os.getuid() and os.access(folder, os.W_OK)
    return folder if own and not status.st_mode & 0o022 else None


def _compile(compiler: str, source: bytes, folder: Path) -> Path:
    """Compile the source; return the library, in `folder`."""
    code, compiled, library = (folder / name for name in ("kernels.cpp", "kernels.o", "kernels.so"))
    code.write_bytes(source)
    # Linked without an OpenMP runtime, so that the loader takes torch's.
    for arguments in ([*_FLAGS, "-c", code, "-o", compiled], ["-shared", compiled, "-o", library]):
        command = [compiler, *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)
    return library
