"""Common fields of every record: command, date, machine and versions."""

import datetime
import gzip
import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def header(command: str, *packages: str) -> dict[str, object]:
    """Return the common fields: command, date, checked-out commit, this machine, versions."""
    return {
        "command": command,
        "date": now(),
        "commit": commit(),
        "machine": machine(),
        "versions": {name: version(name) for name in ("transduce", "torch", *packages)},
    }


def write(name: str, record: Mapping[str, object], *, hide: Mapping[str, str] | None = None) -> str:
    """Write results/NAME/record.json, with paths replaced by placeholders, and return its text."""
    hidden = hide_paths(record, hide or {})  # paths of the machine are private
    text = json.dumps(hidden, indent=2, ensure_ascii=False) + "\n"
    out = RESULTS / name / "record.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return text


def hide_paths(value: Any, placeholders: Mapping[str, str]) -> Any:
    """Replace paths in all strings of a value except keys, also where they start a longer path."""
    if isinstance(value, Mapping):
        return {key: hide_paths(member, placeholders) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [hide_paths(item, placeholders) for item in value]
    if isinstance(value, str):
        for path, placeholder in placeholders.items():
            # Not within a longer name, as "runs" in "old-runs", "my/runs" and "runs.txt".
            name = re.escape(path.rstrip("/") or path)
            parts = re.split(rf"(?<![\w./~-]){name}(?![\w-]|\.[\w./])", value) if path else [value]
            value = placeholder.join(parts)
    return value


def outcome(
    file: Path, settings: Mapping[str, object], compute: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the outcome of a run: read from its file, or computed and written there.

    These files are committed, so that a record can be completed on another machine. An outcome with
    other settings is computed again.
    """
    settings = json.loads(json.dumps(settings))
    if file.exists() and (stored := json.loads(file.read_text()))["settings"] == settings:
        return stored
    result = {**compute(), "settings": settings, "date": now(), "commit": commit()}
    result |= {key: machine()[key] for key in ("processor", "vector_units")}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return result


def bleu_of(results: Mapping[str, Any]) -> float:
    """Return the BLEU of a set in a run's results.json."""
    return next(score["value"] for score in results["scores"] if score["name"] == "BLEU")


def read_lines(file: str | Path) -> list[str]:
    """Read the lines of a file, gzip or not, split at line feeds only."""
    data = Path(file).read_bytes()
    text = (gzip.decompress(data) if str(file).endswith(".gz") else data).decode()
    return text.removesuffix("\n").split("\n")


def machine() -> dict[str, object]:
    """Describe the processor, its cores, the operating system and Python."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().split("\n") if cpuinfo.exists() else []
    names = {line.split(":")[1].strip() for line in lines if line.startswith("model name")}
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return {
        "processor": ", ".join(sorted(names)) or platform.processor(),
        "cores": sum(line.startswith("processor") for line in lines),
        "cores_used": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "vector_units": [
            flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags
        ],
        "system": platform.system(),
        "python": platform.python_version(),
    }


def now() -> str:
    """Return the current time in UTC, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def commit() -> str:
    """Return the checked-out commit; "+" marks uncommitted changes in src.

    Where files were copied without their repository, TRANSDUCE_COMMIT names it.
    """
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    dirty = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True)
    if not name:
        return os.environ.get("TRANSDUCE_COMMIT", "")
    return name.strip() + ("+" if dirty.stdout.strip() else "")
