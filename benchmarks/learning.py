"""Equal learning from equal tokens: ours against `torch.nn.Transformer` as the paper's model.

    .venv/bin/python benchmarks/learning.py --folder CORPUS

Both start from the same weights and read the same batches of Multi30k (those of `training.py`,
shape T) by the same rates, ours in the precision that it chooses here, nn.Transformer in float32.
Without dropout nothing is left to chance, so their losses on the validation set can differ by
rounding alone. With dropout each draws units of its own: every pair of
trainings then is one draw of either, and how far the draws of one system are apart says what a
difference means. Prints a table and writes benchmarks/results/learning/record.json. Other work on
the machine changes the time that this takes, not what it finds.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from peers.running import arrange, with_ours
from peers.shapes import BETAS, DROPOUT, EPSILON, SMOOTHING, TOKENS
from record import header, write

SYSTEMS = ("transduce", "torch")


def main() -> None:
    """Train every pair, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of Multi30k")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument(
        "--draws", type=int, default=2, help="pairs with dropout, beside one without"
    )
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    arrange(0)
    with tempfile.TemporaryDirectory() as work:
        made = with_ours("prepare.py", str(arguments.folder), work, str(arguments.updates))
        draws = [(0.0, 1), *((DROPOUT, draw) for draw in range(1, arguments.draws + 1))]
        pairs = [
            pair(work, updates=arguments.updates, dropout=dropout, draw=draw)
            for dropout, draw in draws
        ]
    record = {
        **header("python " + " ".join(sys.argv)),
        "corpus": "Multi30k en-de, tokenised",
        **made,
        "model": "T",
        "updates": arguments.updates,
        "tokens_an_update_about": TOKENS,
        "label_smoothing": SMOOTHING,
        "adam": {"betas": BETAS, "epsilon": EPSILON},
        "pairs": pairs,
    }
    print(table(pairs))
    if not arguments.dry:
        write("learning", record, hide={str(arguments.folder): "CORPUS"})


def pair(work: str, *, updates: int, dropout: float, draw: int) -> dict[str, object]:
    """What both know after the same tokens; with dropout, the draw's number seeds it."""
    found = {}
    for system in SYSTEMS:
        print(f"{system}, dropout {dropout}, draw {draw}", file=sys.stderr, flush=True)
        words = (system, "T", work, str(updates), str(dropout), str(draw))
        found[system] = with_ours("learning.py", *words)
    ours, theirs = (found[system]["after"] for system in SYSTEMS)
    return {
        "dropout": dropout,
        "draw": draw,
        "tokens": found["torch"]["tokens"],
        "precision": {name: one["precision"] for name, one in found.items()},
        "validation_loss_before": {name: round(one["before"], 5) for name, one in found.items()},
        "validation_loss": {name: round(one["after"], 5) for name, one in found.items()},
        "ours_above_theirs_percent": round(100 * (ours / theirs - 1), 3),
    }


def table(pairs: list[dict[str, object]]) -> str:
    """A line a pair."""
    lines = ["dropout  draw     tokens  ours    nn.Transformer  ours above theirs"]
    lines += [
        f"{one['dropout']:7}  {one['draw']:4}  {one['tokens']:9,}  "
        f"{one['validation_loss']['transduce']:.4f}  {one['validation_loss']['torch']:14.4f}  "
        f"{one['ours_above_theirs_percent']:+15.3f} %"
        for one in pairs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
