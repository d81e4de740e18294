"""What was measured, as rows of the record and as people read it."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from peers.shapes import SHAPES

OURS = "ours"
KEEPING = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TOP_PAD_": str(2**26),
}
"""For glibc: keep freed memory in place of returning it."""


class Setting(NamedTuple):
    """What a system is told beside what it is to do."""

    environment: Mapping[str, str]
    words: tuple[str, ...] = ()


COMES, EXACT, KEPT, SHORT = "as it comes", "float32", "memory kept", "kept, bfloat16"
SETTINGS: Mapping[str, Setting] = {
    COMES: Setting({}),
    EXACT: Setting({}, ("--precision", "float32")),
    KEPT: Setting(KEEPING),
    SHORT: Setting(KEEPING, ("--precision", "bfloat16")),
}
OF_OURS, OF_LOOPS, OF_TOOLKITS = (COMES, EXACT), (COMES, KEPT, SHORT), (COMES, KEPT)
"""Ours takes bfloat16 by itself where there are units; the toolkits have none on a CPU."""


class Way(NamedTuple):
    """A system with its settings."""

    system: str
    settings: str
    command: tuple[str, ...]


class Found(NamedTuple):
    """What one process found."""

    tokens_a_second: float
    tokens_an_update: float
    peak_mb: int
    version: str
    precision: str

    @classmethod
    def of(cls, said: Mapping[str, object], peak_mb: int) -> "Found":
        """From what a program printed."""
        rates = (said["tokens_a_second"], said["tokens_an_update"])
        return cls(*rates, peak_mb, said["version"], said.get("precision", "float32"))


def rows_of(
    found: Mapping[Way, Sequence[Found]], *, most: Mapping[str, float]
) -> list[dict[str, object]]:
    """A row for each way, the quickest first; `most` tokens a second is a precision's ceiling."""
    rows = []
    for way, rounds in found.items():
        if not rounds:
            continue
        rates, precision = [one.tokens_a_second for one in rounds], rounds[0].precision
        rows.append(
            {
                "system": way.system,
                "version": rounds[0].version,
                "settings": way.settings,
                "precision": precision,
                "tokens_a_second": round(statistics.median(rates), 1),
                "each_round": [round(rate, 1) for rate in rates],
                "share_of_ceiling": round(statistics.median(rates) / most[precision], 4),
                "peak_mb": max(one.peak_mb for one in rounds),
                "tokens_an_update": round(statistics.mean(one.tokens_an_update for one in rounds)),
            }
        )
    return sorted(rows, key=lambda row: -row["tokens_a_second"])


def gains(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """How many times as quick as the quickest peer ours is, for all settings of either."""
    gained: list[dict[str, object]] = []
    for own in (row for row in rows if row["system"] == OURS):
        for settings in OF_LOOPS:
            peers = [row for row in rows if row["system"] != OURS and row["settings"] == settings]
            if not peers:
                continue
            quickest = max(peers, key=lambda row: row["tokens_a_second"])
            gain = round(own["tokens_a_second"] / quickest["tokens_a_second"], 3)
            beside = {"quickest_peer": quickest["system"], "peers": settings}
            gained.append({"ours": own["settings"], **beside, "gain": gain})
    return gained


def table(model: str, measured: Mapping[str, object], *, gflops: Mapping[str, float]) -> str:
    """What a model's rows say."""
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
        each = ", ".join(f"{rate:,.0f}" for rate in row["each_round"])
        lines.append(
            f"{row['system']:12}  {row['settings']:14}  {row['precision']:9}"
            f"  {row['tokens_a_second']:9,.0f}"
            f"  {row['share_of_ceiling']:10.0%}  {row['peak_mb']:9,}  {row['tokens_an_update']:13,}"
            f"   {each}"
        )
    lines += [
        f"ours, {gained['ours']}, is {gained['gain']:.2f} × the quickest peer "
        f"({gained['quickest_peer']}), {gained['peers']}"
        for gained in measured["gains"]
    ]
    return "\n".join(lines)
