"""This program's version, and the machine: processor, container limits, environment, memory."""

import os
import platform
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.1.0"

TORCH_HINT = "pip install 'transduce[train]'"
"""How a user installs torch, for what needs it."""

CGROUP = Path("/sys/fs/cgroup")
"""Where Linux states a container's limits (control groups, version 2)."""


def has_torch() -> bool:
    """Return whether torch is installed; it is not imported, which takes seconds."""
    return find_spec("torch") is not None


def require_torch(feature: str) -> None:
    """Refuse what needs torch where it is not installed; the message begins with `feature`."""
    if not has_torch():
        raise ValueError(f"{feature} needs PyTorch: {TORCH_HINT}")


def cgroup_limit(name: str) -> list[str]:
    """Return the fields of a container's limit; the first is "max" where there is none."""
    file = CGROUP / name
    return (file.read_text().split() if file.is_file() else []) or ["max"]


def processor_name() -> str:
    """Return the processor's name; empty if unknown."""
    return _cpuinfo("model name") or platform.processor()


def processor_vendor() -> str:
    """Return the processor's vendor as Linux names it, such as "AuthenticAMD"; empty if unknown."""
    return _cpuinfo("vendor_id")


def processor_features() -> str:
    """Return the processor's features as Linux names them; empty if unknown."""
    return _cpuinfo("flags|Features")


def _cpuinfo(field: str) -> str:
    """Return a field that Linux states of the first processor; empty if unknown."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    match = re.search(rf"^(?:{field})\s*:\s*(.+)$", text, re.M)
    return match[1] if match else ""


def usable_cores() -> float:
    """Return the number of cores that this process may use; a container's may be fractional."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota, *period = cgroup_limit("cpu.max")
    return float(min(count, int(quota) / int(period[0])) if quota.isdigit() else count)


# Libraries report most failed allocations as a RuntimeError, recognisable by its text alone.
_OUT_OF_MEMORY = (
    "can't allocate memory",  # torch's allocator on CPUs
    "Cannot allocate memory",  # the system's text for ENOMEM
    "not enough memory",  # torch on other systems
    "failed to allocate memory",  # MKL
    "could not create a primitive",  # oneDNN, whose buffers and code it could not allocate
    "std::bad_alloc",
    "out of memory",  # a device's driver
    "CUBLAS_STATUS_ALLOC_FAILED",  # a workspace of cuBLAS, which torch does not allocate
)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on the host or on a device.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    True
    >>> out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True  # the second is torch's, a RuntimeError with any text
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)


def keep_freed_memory() -> bool:
    """Make the C library keep freed blocks for the next step instead of returning them.

    By default glibc maps every large tensor anew and the kernel zeroes its pages each time
    (benchmarks/kernels.py measures the cost for training). It holds for the whole process and
    cannot be undone: programs call it, the library never does.

    Returns:
        Whether the C library supports it (glibc does).
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8
    settings = {mmap_max: 0, trim_threshold: 2**31 - 1, top_pad: 64 * 2**20, arena_max: 1}
    return all(mallopt(setting, value) == 1 for setting, value in settings.items())


@contextmanager
def environment_variable(name: str, value: str) -> Generator[None]:
    """Set an environment variable, and restore it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def user_cache(environment: Mapping[str, str], *, system: str, home: Path) -> Path:
    """Return the user's cache folder: TRANSDUCE_CACHE, or the system's standard location.

    Args:
        environment: environment variables.
        system: `sys.platform`.
        home: the user's home folder.
    """
    if override := environment.get("TRANSDUCE_CACHE"):
        return Path(override)
    if system == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "transduce" / "cache"
    if system == "darwin":
        return home / "Library" / "Caches" / "transduce"
    xdg = Path(environment.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else home / ".cache") / "transduce"


def commit() -> str:
    """Return the commit of this source if git tracks it, else an empty string."""
    import subprocess  # here, since `import transduce` needs only the version

    source = Path(__file__)

    def git(*arguments: str) -> str:
        command, quiet = ["git", *arguments], subprocess.DEVNULL
        return subprocess.check_output(command, cwd=source.parent, stderr=quiet, text=True)

    try:
        git("ls-files", "--error-unmatch", source.name)
        return git("rev-parse", "HEAD").strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes; 0 where unknown."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
