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

SETTINGS: Mapping[str, Mapping[str, str]] = {"as it comes": {}, "memory kept": KEEPING}


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

    @classmethod
    def of(cls, said: Mapping[str, object], peak_mb: int) -> "Found":
        """From what a program printed."""
        rates = (said["tokens_a_second"], said["tokens_an_update"])
        return cls(*rates, peak_mb, said["version"])


def rows_of(found: Mapping[Way, Sequence[Found]], *, most: float) -> list[dict[str, object]]:
    """A row for each way, the quickest first; `most` tokens a second would be the ceiling."""
    rows = []
    for way, rounds in found.items():
        if not rounds:
            continue
        rates = [one.tokens_a_second for one in rounds]
        rows.append(
            {
                "system": way.system,
                "version": rounds[0].version,
                "settings": way.settings,
                "tokens_a_second": round(statistics.median(rates), 1),
                "each_round": [round(rate, 1) for rate in rates],
                "share_of_ceiling": round(statistics.median(rates) / most, 4),
                "peak_mb": max(one.peak_mb for one in rounds),
                "tokens_an_update": round(statistics.mean(one.tokens_an_update for one in rounds)),
            }
        )
    return sorted(rows, key=lambda row: -row["tokens_a_second"])


def gains(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """How many times as quick as the quickest peer ours is, for either of the peers' settings."""
    (own,) = [row["tokens_a_second"] for row in rows if row["system"] == OURS] or [None]
    gained: dict[str, object] = {}
    for settings in SETTINGS:
        peers = [row for row in rows if row["system"] != OURS and row["settings"] == settings]
        if own and peers:
            quickest = max(peers, key=lambda row: row["tokens_a_second"])
            gain = round(own / quickest["tokens_a_second"], 3)
            gained[settings] = {"quickest_peer": quickest["system"], "gain": gain}
    return gained


def table(model: str, measured: Mapping[str, object], *, gflops: float) -> str:
    """What a model's rows say."""
    shape, rows = SHAPES[model], measured["rows"]
    lines = [
        "",
        f"{model}: {shape.layers}+{shape.layers} layers, d_model {shape.d_model}, d_ff "
        f"{shape.d_ff}, {shape.heads} heads; {measured['mflop_a_token']:.1f} MFLOP a token; "
        f"ceiling {gflops:.0f} GFLOP/s",
        "",
        "system        settings       tokens/s   of ceiling   peak MB   tokens/update   each round",
    ]
    for row in rows:
        each = ", ".join(f"{rate:,.0f}" for rate in row["each_round"])
        lines.append(
            f"{row['system']:12}  {row['settings']:12}  {row['tokens_a_second']:9,.0f}"
            f"  {row['share_of_ceiling']:10.0%}  {row['peak_mb']:9,}  {row['tokens_an_update']:13,}"
            f"   {each}"
        )
    for settings, gained in measured["gains"].items():
        beside = f"the quickest peer ({gained['quickest_peer']}), {settings}"
        lines.append(f"ours is {gained['gain']:.2f} × {beside}")
    return "\n".join(lines)
