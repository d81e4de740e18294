"""Synthetic pairs of monolingual text: back-translation and forward translation.

A target-to-source model makes sources for sentences of the target language, whose own side is what
people wrote; or the model of the task itself makes targets (self-training). The source begins with
a tag, so that a model which trains on them (`data.also`) can tell them from real pairs.

Source:
    Sennrich, Haddow, Birch 2016, "Improving NMT Models with Monolingual Data"; Caswell, Chelba,
    Grangier 2019, "Tagged Back-Translation"; Edunov, Ott, Auli, Grangier 2018, on sampling.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from transduce.cluster.engines import ClusterConfig
from transduce.cluster.formats import resolve
from transduce.cluster.translate import TranslateTexts, model_settings, process_corpus
from transduce.corpus_check.language import guess_language
from transduce.data.corpus import Pair, pair_fault, tidy
from transduce.data.languages import normalized_base
from transduce.data.tokenizer import BACK_TRANSLATED, FORWARD_TRANSLATED
from transduce.inference.translation import Translation
from transduce.inference.translator import CHUNK, Translator
from transduce.io.resumable import LineOutput, partial_file, resumable_output
from transduce.io.streams import open_lines
from transduce.pipeline.prepare import progress_reporter
from transduce.train.events import EventHandler, LogMessage


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticConfig:
    """How synthetic pairs are made, and which are kept.

    Raises:
        ValueError: if a value is out of range; the message names the option and the value.
    """

    forward: bool = False
    """The text is of the source language: its translations become the targets."""
    beam: int = 4
    """Beam size; unused if sampling."""
    sample: bool = False
    """Draw translations from the model's distribution in place of beam search."""
    top_k: int = 0
    """Sample from this many most probable pieces; 0 = all."""
    min_score: float = -99.0
    """Least mean log-probability of a piece, end of sentence included."""
    max_ratio: float = 4.0
    """Maximum (longer side + 10) / (shorter side + 10), in non-blank characters."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"--beam must be 1 or more, not {self.beam}")
        if math.isnan(self.min_score) or self.min_score > 0:
            raise ValueError(f"--min-score is a log-probability, 0 or less, not {self.min_score}")
        if not self.max_ratio >= 1.0:
            raise ValueError(f"--max-ratio must be 1 or more, not {self.max_ratio}")
        if self.top_k and not self.sample:
            raise ValueError("--top-k needs --sample")

    @property
    def tag(self) -> str:
        """What the sources begin with."""
        return FORWARD_TRANSLATED if self.forward else BACK_TRANSLATED


def augment(
    translator: Translator,
    text: Path,
    out: Path,
    *,
    config: SyntheticConfig,
    model: str,
    languages: tuple[str, str],
    on_event: EventHandler,
) -> str:
    """Translate text and write the pairs that pass as a TSV file; resume what was interrupted.

    Args:
        translator: from the language of the text.
        text: a sentence per line.
        out: the corpus, source and target in two columns.
        config: how, and which pairs are kept.
        model: identifies the translator's weights; another one cannot resume.
        languages: of the text and of its translation; "" is not checked.

    Returns:
        One line: pairs kept, and lines that this call left out by reason.

    Raises:
        ValueError: if the text cannot be read, the output was begun otherwise, or no pair passes.
    """
    on_event(LogMessage(translator.engine_description))
    left_out = Counter[str]()
    settings = {"model": model, **{key: str(value) for key, value in asdict(config).items()}}
    with open_lines(text) as raw, resumable_output([out], raw, settings=settings) as output:

        def write(translation: Translation) -> None:
            if reason := _fault(translation, config, languages):
                left_out[reason] += 1
                return
            output.write(f"{_line(translation, config)}\n")

        translate_lines(
            raw,
            output,
            translate=lambda chunk, progress: _translate(translator, chunk, config, progress),
            write=write,
            on_event=on_event,
        )
        partial_output = partial_file(out.resolve())
        with partial_output.open("rb") as written:
            kept = sum(1 for _ in written)
        if not kept:
            # Else a milder filter would be refused as another setting.
            partial_output.with_suffix(".progress").unlink(missing_ok=True)
            raise ValueError(f"{text}: no pair to keep of {output.done:,} lines{_listed(left_out)}")
    return f"{kept:,} pairs of {output.done:,} lines{_listed(left_out)}"


def augment_on_cluster(
    path: Path,
    text: str,
    out: str,
    *,
    config: SyntheticConfig,
    languages: tuple[str, str],
    to: str = "",
    cluster: ClusterConfig,
    on_event: EventHandler,
) -> str:
    """Translate text by workers, and write the pairs that pass as TSV files; resume likewise.

    Args:
        path: the model's folder.
        text: folder, pattern or file, as for `translate_corpus`.
        out: folder for the corpus, whose files in order have the lines of `augment`.
        config: as for `augment`.
        languages: likewise.
        to: target language, for a model of several.

    Returns:
        One line: pairs kept.

    Raises:
        ValueError: as for `translate_corpus`, or if no pair passes.
    """
    options = {"languages": languages, "to": to, "device": cluster.device}
    result = process_corpus(
        partial(_load_pairs, path.resolve(), config=config, **options),
        *(text, out),
        settings=model_settings({**asdict(config), **options}, path),
        config=cluster,
        suffix=".tsv",
        on_event=on_event,
    )
    kept = sum((resolve(out) / name).read_bytes().count(b"\n") for name in result.files)
    if not kept:
        raise ValueError(f"{text}: no pair to keep of {result.rows:,} lines")
    return (
        f"{kept:,} pairs of {result.rows:,} lines in {len(result.files):,} files, "
        f"{result.translated:,} lines translated now"
    )


def _load_pairs(
    path: Path, *, config: SyntheticConfig, languages: tuple[str, str], to: str, device: str
) -> TranslateTexts:
    """Return a function that makes a pair of each text, "" if it is left out."""
    translator = Translator.load(path, device=device)
    translator = translator.to(to) if to else translator

    def make(texts: list[str], first_line: int) -> list[str]:
        translations = _translate(translator, texts, config)
        return [
            "" if _fault(translation, config, languages) else _line(translation, config)
            for translation in translations
        ]

    return make


def translate_lines(
    lines: Iterator[str],
    output: LineOutput,
    *,
    translate: Callable[[list[str], Callable[[int], None]], list[Translation]],
    write: Callable[[Translation], None],
    on_event: EventHandler,
) -> None:
    """Translate lines in chunks, committing the output of each.

    Args:
        lines: are advanced; the first ones are done already if the output resumes.
        output: receives what `write` writes.
        translate: translates a chunk, and reports how many sentences of it are done.
        write: called with each translation.
    """
    if output.done:
        on_event(LogMessage(f"continuing after {output.done:,} lines"))
    count = progress_reporter(on_event, "translated")
    while chunk := list(islice(lines, CHUNK)):
        before = output.done
        for translation in translate(chunk, lambda done, before=before: count(before + done)):
            write(translation)
        output.commit(chunk)


def _translate(
    translator: Translator,
    lines: list[str],
    config: SyntheticConfig,
    progress: Callable[[int], None] | None = None,
) -> list[Translation]:
    return translator.translate(
        [*map(tidy, lines)],
        num_beams=None if config.sample else config.beam,
        do_sample=config.sample,
        top_k=config.top_k,
        progress=progress,
    )


def _line(translation: Translation, config: SyntheticConfig) -> str:
    pair = Pair(translation.text, translation.source)
    source, target = reversed(pair) if config.forward else pair
    return f"{config.tag} {source}\t{target}"


def _fault(
    translation: Translation, config: SyntheticConfig, languages: tuple[str, str]
) -> str | None:
    """Reason to leave out a translation; None if it passes."""
    texts = translation.source, tidy(translation.text)
    if fault := pair_fault(*texts, max_ratio=config.max_ratio):
        return fault if "ratio" in fault else "empty"
    if translation.flag and not translation.mended:
        return translation.flag.partition(" (")[0]  # without the words that are repeated
    if texts[0] == texts[1]:
        return "copied"
    log_probs = translation.log_probs
    if math.fsum(log_probs) < config.min_score * len(log_probs):
        return "score"
    for text, expected in zip(texts, languages, strict=True):
        guessed = guess_language([text]) if expected else ""
        if guessed and _comparable(guessed) != _comparable(expected):
            return f"language {guessed}"
    return None


def _comparable(code: str) -> str:
    """The language of a code, as word lists can tell it: Norwegian is one.

    >>> _comparable("zh-CN"), _comparable("nno")
    ('zh', 'no')
    """
    base = normalized_base(code)
    return "no" if base in ("nb", "nn") else base


def _listed(left_out: Counter[str]) -> str:
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in left_out.most_common())
    return f"; left out now {left_out.total():,} ({reasons})" if left_out else ""
