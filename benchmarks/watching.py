"""A small recorded training for the documentation: numbers from English to German.

    python benchmarks/watching.py

"three hundred and forty-two thousand" is "dreihundertzweiundvierzigtausend": units precede tens in
a single word, so attention has to cross. The recipe below trains for less than a minute on two
cores and keeps every checkpoint; they become results/watching/page.json and weights.bin (int8),
from which the site's page is built. record.json has the model's scores on held-out numbers, and the
SHA-256 of the weights.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

from record import RESULTS, header, write

from transduce.bundle.bundle import Bundle
from transduce.cli.progress import describe as describe_event
from transduce.config import Recipe, load_recipe
from transduce.inference.translator import Translator
from transduce.pipeline.history import training_history
from transduce.pipeline.run import run_recipe
from transduce.train.events import Event
from transduce.web.page import describe

NAME = "watching"
PAIRS, HELD_OUT = 20_000, 500
RECIPE = """
name = "numbers"

[languages]
source = "en"
target = "de"
source_name = "English numbers"
target_name = "German numbers"

[data]
train = ["train.en", "train.de"]
validation = ["validation.en", "validation.de"]
test = ["test.en", "test.de"]

[tokenizer]
vocab_size = 136

[model]
encoder_layers = 2
decoder_layers = 2
d_model = 32
d_ff = 64
heads = 4
d_k = 8
d_v = 8
norm = "pre"
dropout = 0.0

[batch]
tokens = 1024

[search]
beam = 1

[train]
updates = 600
label_smoothing = 0.0
optimizer = "muon"
schedule = "linear"
warmup = 50
learning_rate = 0.005
muon_learning_rate = 0.01
validate_every = 30
average_checkpoints = 1
keep_checkpoints = 100
log_every = 5
precision = "float32"
device = "cpu"
"""

ONES = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
EINER = (
    *("ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf"),
    *("zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"),
)
ZEHNER = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")


def english(number: int) -> str:
    """Spell a number below a million in English."""
    if number >= 1000:
        rest = number % 1000
        and_ = "and " if 0 < rest < 100 else ""
        return (
            f"{english(number // 1000)} thousand {f'{and_}{english(rest)}' if rest else ''}".strip()
        )
    if number >= 100:
        rest = number % 100
        return f"{english(number // 100)} hundred{f' and {english(rest)}' if rest else ''}"
    if number >= 20:
        ten = TENS[number // 10 - 2]
        return f"{ten}-{english(number % 10)}" if number % 10 else ten
    return ONES[number - 1]


def german(number: int, *, last: bool = True) -> str:
    """Spell a number below a million in German; "eins" only at the end."""
    if number >= 1000:
        rest = number % 1000
        return f"{german(number // 1000, last=False)}tausend{german(rest) if rest else ''}"
    if number >= 100:
        rest = number % 100
        return f"{EINER[number // 100 - 1]}hundert{german(rest, last=last) if rest else ''}"
    if number >= 20:
        ten = ZEHNER[number // 10 - 2]
        return f"{EINER[number % 10 - 1]}und{ten}" if number % 10 else ten
    return "eins" if number == 1 and last else EINER[number - 1]


def write_corpus(folder: Path) -> list[int]:
    """Write numbers of 1 to 6 digits, uniform by length; return those of the test set.

    Validation and test numbers are at least 1,000 and not in the training set.
    """
    generator = random.Random(1)
    held_out = generator.sample(range(1000, 10**6), 2 * HELD_OUT)
    train: list[int] = []
    while len(train) < PAIRS:
        digits = generator.randint(1, 6)
        number = generator.randrange(10 ** (digits - 1), 10**digits)
        if number not in held_out:
            train.append(number)
    validation, test = held_out[:HELD_OUT], held_out[HELD_OUT:]
    for name, part in (("train", train), ("validation", validation), ("test", test)):
        for language, word in (("en", english), ("de", german)):
            lines = "".join(f"{word(number)}\n" for number in part)
            (folder / f"{name}.{language}").write_text(lines, encoding="utf-8")
    return test


def write_recipe(corpus: Path) -> Recipe:
    """Write the recipe above for this corpus, and load it."""
    file = corpus / "recipe.toml"
    file.write_text(RECIPE, encoding="utf-8")
    return load_recipe(file, [f"data.folder={corpus}"])


def main() -> None:
    """Train, and write the site's data and the record."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, run = Path(folder) / "corpus", Path(folder) / "run"
        corpus.mkdir()
        test = write_corpus(corpus)
        result = run_recipe(write_recipe(corpus), run, on_event=print_event)
        bundle = Bundle.load(run)
        weights, description = describe(bundle, precision="int8", history=training_history(run))
        translations = Translator.from_bundle(bundle, engine="torch").translate(
            [english(number) for number in test]
        )
    out = RESULTS / NAME
    out.mkdir(parents=True, exist_ok=True)
    (out / "weights.bin").write_bytes(weights)
    page = json.dumps(description, ensure_ascii=False)
    (out / "page.json").write_text(page + "\n", encoding="utf-8")
    assert result.test is not None
    correct = sum(
        translation.text == german(number)
        for number, translation in zip(test, translations, strict=True)
    )
    record = {
        **header("python benchmarks/watching.py"),
        "parameters": bundle.model.size,
        "pairs": PAIRS,
        "updates": description["history"]["updates"][-1],
        "checkpoints": len(description["history"]["updates"]),
        "test_pairs": len(test),
        "exact": correct / len(test),
        "perplexity": result.test.perplexity,
        "weights_bytes": len(weights),
        "weights_sha256": description["weights"]["sha256"],
    }
    print(write(NAME, record))


def print_event(event: Event) -> None:
    """Print an event of the run."""
    print(describe_event(event), file=sys.stderr)


if __name__ == "__main__":
    main()
