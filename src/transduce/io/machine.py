"""The machine that this process runs on, and what it may use of it."""

import os
import platform
import re
from pathlib import Path

CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use, by its second version of control groups."""


def limit(name: str) -> list[str]:
    """The words of a container's limit; the first is "max" where there is none."""
    file = CONTAINER / name
    return (file.read_text().split() if file.is_file() else []) or ["max"]


def processor() -> str:
    """The processor's name; empty where nobody says it."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return named[1] if named else platform.processor()


def cores() -> float:
    """Cores that this process may use; a container may have half of one."""
    affinity = getattr(os, "sched_getaffinity", None)
    most = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota, *period = limit("cpu.max")
    return float(min(most, int(quota) / int(period[0])) if quota.isdigit() else most)
