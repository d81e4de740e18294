"""Measurements as rows of the record and as a table."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from peers.shapes import SHAPES

OWN = "ours"
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TOP_PAD_": str(2**26),
}
"""Environment variables that make glibc keep freed memory."""


class Setting(NamedTuple):
    """Environment variables and options of a system."""

    environment: Mapping[str, str]
    options: tuple[str, ...] = ()


DEFAULTS, FLOAT32, MEMORY_KEPT, BFLOAT16 = "as it comes", "float32", "memory kept", "kept, bfloat16"
SETTINGS: Mapping[str, Setting] = {
    DEFAULTS: Setting({}),
    FLOAT32: Setting({}, ("--precision", "float32")),
    MEMORY_KEPT: Setting(KEEP_MEMORY),
    BFLOAT16: Setting(KEEP_MEMORY, ("--precision", "bfloat16")),
}
OWN_SETTINGS, LOOP_SETTINGS, TOOLKIT_SETTINGS = (
    (DEFAULTS, FLOAT32),
    (DEFAULTS, MEMORY_KEPT, BFLOAT16),
    (DEFAULTS, MEMORY_KEPT),
)
"""transduce uses bfloat16 by default if the processor does; the toolkits cannot on a CPU."""


class Variant(NamedTuple):
    """A system with its settings."""

    system: str
    settings: str
    command: tuple[str, ...]


class Measurement(NamedTuple):
    """Speed and memory of a process."""

    tokens_a_second: float
    tokens_an_update: float
    peak_mb: int
    version: str
    precision: str

    @classmethod
    def of(cls, output: Mapping[str, object], peak_mb: int) -> "Measurement":
        """Create a measurement from a program's output."""
        rates = (output["tokens_a_second"], output["tokens_an_update"])
        return cls(*rates, peak_mb, output["version"], output.get("precision", "float32"))


def summarize(
    measurements: Mapping[Variant, Sequence[Measurement]], *, ceilings: Mapping[str, float]
) -> list[dict[str, object]]:
    """Format a row per variant, the fastest first; `ceilings` are tokens/s by precision."""
    rows = []
    for variant, rounds in measurements.items():
        if not rounds:
            continue
        rates, precision = (
            [measurement.tokens_a_second for measurement in rounds],
            rounds[0].precision,
        )
        rows.append(
            {
                "system": variant.system,
                "version": rounds[0].version,
                "settings": variant.settings,
                "precision": precision,
                "tokens_a_second": round(statistics.median(rates), 1),
                "each_round": [round(rate, 1) for rate in rates],
                "share_of_ceiling": round(statistics.median(rates) / ceilings[precision], 4),
                "peak_mb": max(measurement.peak_mb for measurement in rounds),
                "tokens_an_update": round(
                    statistics.mean(measurement.tokens_an_update for measurement in rounds)
                ),
            }
        )
    return sorted(rows, key=lambda row: -row["tokens_a_second"])


def compute_gains(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Compute the speed-up over the fastest peer, for all settings of both."""
    gain_rows: list[dict[str, object]] = []
    for own_row in (row for row in rows if row["system"] == OWN):
        for settings in LOOP_SETTINGS:
            peers = [row for row in rows if row["system"] != OWN and row["settings"] == settings]
            if not peers:
                continue
            fastest = max(peers, key=lambda row: row["tokens_a_second"])
            gain = round(own_row["tokens_a_second"] / fastest["tokens_a_second"], 3)
            peer_fields = {"quickest_peer": fastest["system"], "peers": settings}
            gain_rows.append({"ours": own_row["settings"], **peer_fields, "gain": gain})
    return gain_rows


def format_table(model: str, measured: Mapping[str, object], *, gflops: Mapping[str, float]) -> str:
    """Format a model's rows as a table."""
    shape, rows = SHAPES[model], measured["rows"]
    lines = [
        "",
        f"{model}: {shape.layers}+{shape.layers} layers, d_model {shape.d_model}, d_ff "
        f"{shape.d_ff}, {shape.heads} heads; {measured['mflop_a_token']:.1f} MFLOP a token; "
        "ceilings " + ", ".join(f"{rate:.0f} GFLOP/s in {name}" for name, rate in gflops.items()),
        "",
        "system        settings        precision   tokens/s   of ceiling   peak MB   tokens/update"
        "   each round",
    ]
    for row in rows:
        round_rates = ", ".join(f"{rate:,.0f}" for rate in row["each_round"])
        lines.append(
            f"{row['system']:12}  {row['settings']:14}  {row['precision']:9}"
            f"  {row['tokens_a_second']:9,.0f}"
            f"  {row['share_of_ceiling']:10.0%}  {row['peak_mb']:9,}  {row['tokens_an_update']:13,}"
            f"   {round_rates}"
        )
    lines += [
        f"ours, {gain['ours']}, is {gain['gain']:.2f} × the quickest peer "
        f"({gain['quickest_peer']}), {gain['peers']}"
        for gain in measured["gains"]
    ]
    return "\n".join(lines)
