"""Compile and load C++ of the package, where there is a compiler.

A library is compiled once a processor, in seconds, and kept in the user's cache. `LOG` says when.
"""

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from transduce.io.machine import processor_features, user_cache

LOG: Final = logging.getLogger(__name__)

_COMPILER: Final = "g++"
_FLAGS: Final = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-fvisibility=hidden"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
_TIMEOUT: Final = 120
"""Seconds that compiling may take."""

_HEADER: Final = ("transduce.model", "vectors.hpp")

_TYPES: Final = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "u": ctypes.c_uint32,
    "f": ctypes.c_float,
    "s": ctypes.c_char_p,
    "-": None,
}


class Compiled(NamedTuple):
    """A loaded library, or why there is none."""

    library: ctypes.CDLL | None
    reason: str
    """A clause for the person; empty if there is a library."""


def load_compiled(package: str, source: str, signatures: Mapping[str, str]) -> Compiled:
    """Return a library, compiled for this processor unless the user's cache has it.

    Args:
        package: that contains the source, such as "transduce.model".
        source: name of the file, which may include `vectors.hpp`.
        signatures: of each function, the types of its parameters and, after ">", of its result;
            p is an address, i a C int, l and u integers of 64 bits and of 32 without a sign, f a
            float, s a string in C. Spaces are ignored.
    """
    if sys.platform != "linux":
        return Compiled(None, "it is for Linux only")
    compiler = shutil.which(_COMPILER)
    if compiler is None:
        return Compiled(None, f"{_COMPILER} is not installed")
    try:
        library = _load(compiler, [(package, source), _HEADER])
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip().partition("\n")[0]
        return Compiled(None, f"{_COMPILER} could not compile it ({reason})")
    except OSError as error:
        return Compiled(None, f"it cannot be compiled and loaded ({error})")
    for name, signature in signatures.items():
        function = getattr(library, name)
        parameters, _, result = signature.replace(" ", "").partition(">")
        function.argtypes = [_TYPES[kind] for kind in parameters]
        function.restype = _TYPES[result or "-"]
    return Compiled(library, "")


def _load(compiler: str, resources: Sequence[tuple[str, str]]) -> ctypes.CDLL:
    """Load a library from the cache, or compile it: its source comes first, headers after it."""
    texts = {name: files(package).joinpath(name).read_bytes() for package, name in resources}
    version = subprocess.check_output([compiler, "--version"], timeout=_TIMEOUT)
    depends_on = *texts.values(), version, " ".join(_FLAGS).encode(), processor_features().encode()
    name = hashlib.sha256(b"\0".join(depends_on)).hexdigest()[:16] + ".so"
    folder = _private_folder()
    place = folder or Path(tempfile.gettempdir())
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise OSError(f"{place} is mounted with noexec: set TRANSDUCE_CACHE to another folder")
    if folder and (folder / name).is_file():
        with suppress(OSError):  # damaged, or of another C library: compile it anew
            return ctypes.CDLL(str(folder / name))
    LOG.info("compiling %s for this processor: takes seconds, once", resources[0][1])
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        compiled = _compile(compiler, texts, Path(scratch))
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


def _compile(compiler: str, texts: Mapping[str, bytes], folder: Path) -> Path:
    """Compile the first text, which may include the others; return the library, in `folder`."""
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    code, compiled, library = folder / next(iter(texts)), folder / "code.o", folder / "library.so"
    # Linked without an OpenMP runtime, so that the loader takes torch's.
    for arguments in ([*_FLAGS, "-c", code, "-o", compiled], ["-shared", compiled, "-o", library]):
        command = [compiler, *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)
    return library
