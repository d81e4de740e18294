"""Equal learning from equal tokens: transduce and `torch.nn.Transformer` as the paper's model.

    .venv/bin/python benchmarks/learning.py --folder CORPUS

Both start from the same weights and read the same batches of Multi30k (those of `training.py`,
shape T) with the same learning rates, transduce in the precision that it chooses on this machine,
nn.Transformer in float32. Without dropout nothing is random, so their validation losses can differ
only by rounding. With dropout each drops other units: every pair of trainings is then one draw of
either, and the spread between draws of one system puts a difference into perspective. Prints a
table and writes benchmarks/results/learning/record.json. Other programs on the machine do not
change the results.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from peers.running import arrange, run_own
from peers.shapes import BETAS, DROPOUT, EPSILON, SMOOTHING, TOKENS
from record import header, write

SYSTEMS = ("transduce", "torch")


def main() -> None:
    """Train every pair, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument(
        "--draws", type=int, default=2, help="pairs with dropout, in addition to one without"
    )
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    arrange(0)
    with tempfile.TemporaryDirectory() as work:
        corpus_info = run_own("prepare.py", str(arguments.folder), work, str(arguments.updates))
        draws = [(0.0, 1), *((DROPOUT, draw) for draw in range(1, arguments.draws + 1))]
        pairs = [
            train_pair(work, updates=arguments.updates, dropout=dropout, draw=draw)
            for dropout, draw in draws
        ]
    record = {
        **header("python " + " ".join(sys.argv)),
        "corpus": "Multi30k en-de, tokenised",
        **corpus_info,
        "model": "T",
        "updates": arguments.updates,
        "tokens_an_update_about": TOKENS,
        "label_smoothing": SMOOTHING,
        "adam": {"betas": BETAS, "epsilon": EPSILON},
        "pairs": pairs,
    }
    print(format_table(pairs))
    if not arguments.dry:
        write("learning", record, hide={str(arguments.folder): "CORPUS"})


def train_pair(work: str, *, updates: int, dropout: float, draw: int) -> dict[str, object]:
    """Train both systems on the same tokens; the draw's number seeds dropout."""
    results = {}
    for system in SYSTEMS:
        print(f"{system}, dropout {dropout}, draw {draw}", file=sys.stderr, flush=True)
        arguments = (system, "T", work, str(updates), str(dropout), str(draw))
        results[system] = run_own("learning.py", *arguments)
    own_loss, torch_loss = (results[system]["after"] for system in SYSTEMS)
    return {
        "dropout": dropout,
        "draw": draw,
        "tokens": results["torch"]["tokens"],
        "precision": {name: result["precision"] for name, result in results.items()},
        "validation_loss_before": {
            name: round(result["before"], 5) for name, result in results.items()
        },
        "validation_loss": {name: round(result["after"], 5) for name, result in results.items()},
        "ours_above_theirs_percent": round(100 * (own_loss / torch_loss - 1), 3),
    }


def format_table(pairs: list[dict[str, object]]) -> str:
    """Format a line per pair."""
    lines = ["dropout  draw     tokens  ours    nn.Transformer  ours above theirs"]
    lines += [
        f"{row['dropout']:7}  {row['draw']:4}  {row['tokens']:9,}  "
        f"{row['validation_loss']['transduce']:.4f}  {row['validation_loss']['torch']:14.4f}  "
        f"{row['ours_above_theirs_percent']:+15.3f} %"
        for row in pairs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
