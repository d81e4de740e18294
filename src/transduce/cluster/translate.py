"""Translate a corpus of any size: planned in shards, resumed by a manifest, reported by worker."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transduce.bundle.bundle import find_bundle
from transduce.cluster.engines import ClusterConfig, ProcessShard, ShardWorker, check_installed
from transduce.cluster.formats import (
    InputFile,
    Shard,
    encode_rows,
    find_inputs,
    read_rows,
    resolve,
    scan_file,
    write_dataset_folders,
)
from transduce.cluster.resume import Manifest, check_manifest, finish_shards
from transduce.inference.translator import CHUNK, Translator
from transduce.io.atomic_folder import MANIFEST, sha256
from transduce.io.machine import VERSION, has_torch
from transduce.train.events import EventHandler

TranslateTexts = Callable[[list[str], int], list[str]]
"""Translates texts, given the line number of the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterResult:
    """A corpus that is finished."""

    rows: int
    files: tuple[str, ...]
    """Output files, relative to the output folder, in the order of the input."""
    translated: int
    """Rows that this call processed; the others were finished before."""
    seconds: float


def translate_corpus(
    model: str | Path,
    input: str,
    output: str,
    *,
    config: ClusterConfig | None = None,
    loading: Mapping[str, Any] | None = None,
    on_event: EventHandler = lambda event: None,
    **options: Any,
) -> ClusterResult:
    """Translate all files of a folder by workers on one or more machines.

    A second call with the same arguments translates what is missing.

        translate_corpus("runs/mine", "corpus/*.txt", "translated", num_beams=4)

    Args:
        model: the model folder, which all machines can read.
        input: a folder, a glob pattern or a file: a local path or an address of fsspec. Text, gzip,
            xz, Zstandard, JSONL, Parquet, or a folder saved by Hugging Face's `datasets`.
        output: folder for the translations, in the format of the input, in shards.
        config: where to translate; None: on all cores of this machine.
        loading: options of `Translator.load`: engine, compute_type, shortlist, ensemble.
        on_event: receives progress.
        options: of `Translator.translate`, such as num_beams.

    Raises:
        ValueError: if the output was begun with another corpus, model or options; for faulty input;
            or if a package is missing.
        OSError: if a file cannot be read or written.
    """
    config, loading = config or ClusterConfig(), dict(loading or {})
    others: Sequence[Path] = loading.pop("ensemble", ())
    models = [find_bundle(Path(path)).resolve() for path in (model, *others)]
    shortlist = loading.get("shortlist")
    loading["device"] = config.device
    settings = model_settings({**loading, **options}, *models)
    settings["shortlist"] = sha256(Path(shortlist)) if shortlist else ""
    loading["ensemble"] = models[1:]
    if shortlist:
        loading["shortlist"] = Path(shortlist).resolve()  # workers have other current folders
    load = partial(_load_translator, models[0], loading, options)
    return process_corpus(load, input, output, settings=settings, config=config, on_event=on_event)


def model_settings(options: Mapping[str, object], *models: Path) -> dict[str, str]:
    """Return what determines the output of models, for `process_corpus`: they and the options."""
    return {
        **{name: str(value) for name, value in options.items()},
        "model": " ".join(sha256(find_bundle(path) / MANIFEST) for path in models),
        "version of transduce": VERSION,
    }


def _load_translator(
    model: Path, loading: Mapping[str, Any], options: Mapping[str, Any]
) -> TranslateTexts:
    """Load a translator for a worker, which uses as many threads as OMP_NUM_THREADS says."""
    translator, options = Translator.load(model, **loading), dict(options)
    if options.get("num_beams") is None:  # for sampling, too
        options["num_beams"] = translator.search.beam
    translator.translate([], **options)  # checks the options

    def translate(texts: list[str], first_line: int) -> list[str]:
        translations = translator.translate(
            texts, first_line=first_line, token_scores=False, **options
        )
        return [translation.text for translation in translations]

    return translate


def score_corpus(
    models: Sequence[Path],
    input: str,
    output: str,
    *,
    config: ClusterConfig,
    on_event: EventHandler,
) -> ClusterResult:
    """Write the log-probability of translations, in total and per piece, as `transduce score` does.

    Args:
        models: one, or several with the same vocabulary.
        input: TSV files of source and target; this and the others as for `translate_corpus`.

    Raises:
        ValueError: as for `translate_corpus`, or for a line that has not two columns.
    """
    return process_corpus(
        partial(_load_scorer, [path.resolve() for path in models], config.device),
        input,
        output,
        settings=model_settings({"device": config.device}, *models),
        config=config,
        suffix=".scores",
        on_event=on_event,
    )


def _load_scorer(models: Sequence[Path], device: str) -> TranslateTexts:
    engine = "torch" if has_torch() else "numpy"
    first, *others = models
    translator = Translator.load(first, ensemble=others, device=device, engine=engine)

    def score(texts: list[str], first_line: int) -> list[str]:
        pairs = [text.split("\t") for text in texts]
        for line, pair in enumerate(pairs, first_line):
            if len(pair) != 2:
                raise ValueError(f"line {line} has {len(pair)} columns, not source and target")
        sources, targets = zip(*pairs, strict=True)
        scores = translator.score(sources, targets, first_line=first_line)
        return [str(scored) for scored in scores]

    return score


def process_corpus(
    load: Callable[[], TranslateTexts],
    input: str,
    output: str,
    *,
    settings: Mapping[str, str],
    config: ClusterConfig,
    suffix: str = "",
    on_event: EventHandler,
) -> ClusterResult:
    """Apply a function of texts to a corpus, as `translate_corpus` does with a translator.

    Args:
        load: called once by each worker; returns the function.
        input: this and the others as for `translate_corpus`.
        settings: what determines the output, besides the input.
        suffix: appended to the names of output files, which are lines of text then, without the
            empty ones; "": files are of the format of the input.
    """
    check_installed(config)  # before the corpus is read
    started = time.monotonic()
    folder = resolve(output)
    scan = partial(scan_file, field=config.field, shard_rows=config.shard_rows)
    inputs, shards = list[InputFile](), list[Shard]()
    for address, name in find_inputs(input, output=folder):
        file, parts = scan(address, name, first_number=len(shards))
        inputs.append(file)
        shards += [replace(shard, output=shard.output + suffix) for shard in parts]
    settings = {**settings, "field": config.field, "shard-rows": str(config.shard_rows)}
    manifest = Manifest(inputs=tuple(inputs), settings=settings)
    check_manifest(folder, output, manifest, option="--output")
    process = partial(_load_rows, load, config.field, suffix)
    worker = ShardWorker(load=process, output=str(folder))  # workers have other current folders
    translated = finish_shards(worker, shards, config, on_event)
    names = tuple(shard.output for shard in shards)
    if not suffix:
        write_dataset_folders(folder, resolve(input), names)
    return ClusterResult(
        rows=sum(shard.rows for shard in shards),
        files=names,
        translated=translated,
        seconds=time.monotonic() - started,
    )


def _load_rows(load: Callable[[], TranslateTexts], field: str, suffix: str) -> ProcessShard:
    translate = load()

    def process(shard: Shard) -> bytes:
        (texts, fields), translations = read_rows(shard, field=field), list[str]()
        for start in range(0, len(texts), CHUNK):  # as on one machine: batches are the same
            chunk = texts[start : start + CHUNK]
            try:
                translations += translate(chunk, shard.first + start + 1)
            except ValueError as error:
                raise ValueError(f"{shard.address}: {error}") from None
        if suffix:
            return "".join(f"{line}\n" for line in translations if line).encode()
        return encode_rows(shard, fields, translations)

    return process
