"""The translator: sentences in, translations out, in the same order.

Sentences are tidied like the training text, encoded, and searched in batches of similar length.
Blank ones bypass the model; ones that are too long are translated in parts, or refused.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from transduce.bundle.bundle import Bundle, check_same_vocabulary
from transduce.bundle.calibration import Confidence
from transduce.data.corpus import Pair, tidy
from transduce.data.languages import LanguagePair, same_language
from transduce.data.protection import MaskedText, protection_of
from transduce.data.segmentation import has_unspaced_script
from transduce.data.tokenizer import EOS_PIECE, Tokenizer
from transduce.inference.alignment import align, to_pharaoh
from transduce.inference.confidence import fragmentation, word_confidences
from transduce.inference.decode import (
    DEFAULT_EXTRAS,
    DecodeOptions,
    DecodeResult,
    Extras,
    Searcher,
    SentenceProgress,
    build_requests,
    combine_parts,
    encode_prefix,
    total_score,
)
from transduce.inference.engines.base import EngineOptions, make_native_engine, select_engines
from transduce.inference.engines.interface import Engine, check_sides
from transduce.inference.glossary import Term, match_terms
from transduce.inference.keywords import api_names, unknown_keyword
from transduce.inference.recasing import Recasing, recase
from transduce.inference.translation import Alternative, Continuation, TargetScore, Translation
from transduce.io.machine import require_torch
from transduce.model.numpy_transformer import TransformerWeights
from transduce.model.trace import cross_attention
from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SamplingConfig,
    SearchConfig,
)
from transduce.search.hypothesis import Hypothesis

if TYPE_CHECKING:
    import torch

    from transduce.model.transformer import Transformer

BATCH_TOKENS = 8192
"""Default batch size limit: rows x beam x longest source, in pieces."""

CHUNK = 4096
"""Lines of a file that go to the engine together: batches, and so rounding, depend on it."""


class Translator:
    """Translates with one model, or with an ensemble. `load` makes one from a folder.

    A translator made by `load` can be pickled, which stores the folder: it is loaded again. After a
    fork the child computes with one thread, and loads models of CTranslate2 again.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        tokenizer: Tokenizer,
        *,
        model: TransformerWeights,
        search: SearchConfig,
        confidence: Confidence | None = None,
        engine_description: str = "",
        directions: Sequence[LanguagePair] = (),
        fallback: Callable[[], Engine] | None = None,
    ) -> None:
        """Use `load`, `from_bundle` or `from_parts`.

        Args:
            engines: in order of preference.
            model: what the engines run; the first model of an ensemble.
            search: default settings; `max_source` must fit the model's positions.
            confidence: the model's calibration; None if it has none.
            engine_description: for people: which engine runs, and why; "" if there was no choice.
            directions: of the model, as far as they are known; several by target tag.
            fallback: returns a last engine, for what the others do not support.
        """
        self._searcher = Searcher(engines, tokenizer, model=model, fallback=fallback)
        self._tokenizer = tokenizer
        self._reload: Callable[[], Translator] | None = None  # what `load` did
        self.directions = tuple(directions)
        self._tag = only_target_tag(tokenizer, directions)
        self.model, self.search = model, search
        self.confidence, self.engine_description = confidence, engine_description

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        ensemble: Sequence[str | Path] = (),
        device: "torch.device | str" = "cpu",
        **options: Unpack[EngineOptions],
    ) -> "Translator":
        """Load a bundle, or the best bundle of a run folder.

        Args:
            path: the model folder.
            ensemble: further models with the same vocabulary, whose probabilities are averaged
                with the first one's (torch engine only).
            device: where to compute.
            options: `engine`, `compute_type`, `plan` and `shortlist`; see `EngineOptions`.

        Raises:
            ValueError: one line that names the file at fault, or why an engine is unavailable.
        """
        bundle = Bundle.load(path, device=device)
        if not ensemble:
            translator = cls.from_bundle(bundle, device=device, **options)
        elif options.get("engine", "auto") not in ("auto", "torch") or any(
            options.get(name) not in (None, "float32")
            for name in ("compute_type", "plan", "shortlist")
        ):
            raise ValueError(
                "an ensemble needs the torch engine: choose engine auto or torch, and leave "
                "out compute types, plans and shortlists"
            )
        else:
            translator = cls._load_ensemble(path, bundle, ensemble, device=device)
        translator._reload = partial(
            cls.load,
            Path(path).resolve(),
            ensemble=[Path(other).resolve() for other in ensemble],
            device=device,
            **options,
        )
        return translator

    @classmethod
    def _load_ensemble(
        cls,
        path: str | Path,
        bundle: Bundle,
        ensemble: Sequence[str | Path],
        *,
        device: "torch.device | str",
    ) -> "Translator":
        require_torch("an ensemble")
        models = [bundle.model]
        for other in ensemble:
            member = Bundle.load(other, device=device)
            check_same_vocabulary(bundle, member, names=(path, other))
            models.append(member.model)
        translator = cls.from_parts(
            models, bundle.tokenizer, search=bundle.search, directions=known_directions(bundle)
        )
        translator.engine_description = f"engine: torch (ensemble of {len(models)} models)"
        return translator

    @classmethod
    def from_bundle(
        cls,
        bundle: Bundle,
        *,
        device: "torch.device | str" = "cpu",
        **options: Unpack[EngineOptions],
    ) -> "Translator":
        """Make a translator from a bundle.

        Args:
            bundle: the model, loaded on `device`.
            device: where to compute.
            options: see `EngineOptions`.

        Raises:
            ValueError: if the engine is unavailable.
        """
        selection = select_engines(bundle, device=str(device), **options)
        return cls(
            selection.engines,
            bundle.tokenizer,
            model=bundle.weights,
            search=fit_to_positions(bundle.search, longest=bundle.weights.config.longest),
            confidence=bundle.confidence,
            engine_description=selection.description,
            directions=known_directions(bundle),
            fallback=selection.fallback,
        )

    @classmethod
    def from_parts(
        cls,
        model: "Transformer | Sequence[Transformer]",
        tokenizer: Tokenizer,
        *,
        search: SearchConfig,
        directions: Sequence[LanguagePair] = (),
    ) -> "Translator":
        """Make a translator from a model in memory, on its device.

        Args:
            model: the model, or an ensemble. Training may continue; the translator may then have
                the weights of before.
            tokenizer: the model's.
            search: default settings.
            directions: of a model that has several, by target tag.
        """
        from transduce.inference.engines.torch_engine import TorchEngine

        models = model if isinstance(model, Sequence) else [model]
        device = models[0].embedding.weight.device
        engine = TorchEngine(models, pad=tokenizer.pad, eos=tokenizer.EOS, device=device)
        search = fit_to_positions(search, longest=engine.longest)
        native = make_native_engine(models[0]) if len(models) == 1 else None
        engines = [engine] if native is None else [native, engine]
        return cls(engines, tokenizer, model=models[0], search=search, directions=directions)

    def to(self, target: str, *, source: str = "") -> "Translator":
        """Return this translator for one target language of a model that has several.

        Args:
            target: language code; the engines are shared.
            source: code of the source language, which is only checked: the text tells.

        Raises:
            ValueError: if the model does not translate into that language, or from the source.
        """
        tag = find_target_tag(self._tokenizer, self.directions, target, source=source)
        translator = object.__new__(Translator)
        translator.__dict__ |= self.__dict__ | {"_tag": tag}
        if self._reload is not None:
            translator._reload = partial(_reload_to, self._reload, target)
        return translator

    def tagged(self, text: str) -> str:
        """Put the target language's tag before a text that has none of a language.

        Raises:
            ValueError: if the model has several target languages and none was chosen (`to`).
        """
        return add_target_tag(text, self._tokenizer, self.directions, tag=self._tag)

    def spell_targets(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """Return terms with targets as translations have them: a model may lower-case."""
        surface = self._tokenizer.target.surface
        return tuple(term._replace(target=surface(term.target)) for term in terms)

    def __reduce__(self) -> tuple[Callable[[], "Translator"], tuple[()]]:
        if self._reload is None:
            raise TypeError(
                "only a translator made by Translator.load can be pickled: save the model and load "
                "it in the other process"
            )
        return self._reload, ()

    def translate(
        self,
        sentences: str | Iterable[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
        no_repeat_ngram_size: int = 0,
        min_new_tokens: int = 0,
        max_new_tokens: int | None = None,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        glossary: Mapping[str, str] | Iterable[Term] = (),
        protect: Sequence[str] = (),
        mbr: bool = False,
        retry_loops: bool = True,
        recase: bool = True,
        token_scores: bool = True,
        prefix: str | Sequence[str] = "",
        batch_tokens: int = BATCH_TOKENS,
        first_line: int = 1,
        progress: Callable[[int], None] | None = None,
        target: str | None = None,
        **unknown: object,
    ) -> list[Translation]:
        """Translate sentences independently: batching changes only the time it takes.

            translator.translate("A dog runs.")[0].text
            translator.translate(["A dog runs.", "It barks."], num_beams=8, num_return_sequences=3)
            translator.translate("A dog runs.", glossary={"dog": "Dackel"})

        Keywords have the names of Hugging Face's `generate` where they mean the same.

        Args:
            sentences: one sentence, or several; all are read before the first is translated.
            num_beams: beam size; 1 is greedy search. None: the model's, but at least
                `num_return_sequences`; with `do_sample` exactly that many samples are drawn.
            length_penalty: the paper's α, an exponent of ((5 + length) / 6); higher prefers longer
                translations. None: the model's.
            num_return_sequences: translations per sentence; all but the first are in `others`.
            no_repeat_ngram_size: block repeated n-grams of this size; 0 = off.
            min_new_tokens: minimum length in pieces, end of sentence not included.
            max_new_tokens: maximum length in pieces, end of sentence included. None: the model's.
            do_sample: sample instead of beam search; the most probable sample comes first.
            temperature: of sampling; below 1 sharpens the distribution.
            top_k: sample from this many most probable pieces; 0 = all.
            top_p: sample from the smallest set of pieces with this total probability; 1 = all.
            seed: of sampling.
            glossary: required translations of terms: {"dog": "Dackel"}.
            protect: text to repeat unchanged besides what the model protects: "code", "url",
                "number", "capitals" or regular expressions; the model needs placeholders.
            mbr: minimum Bayes risk decoding over the beam or the samples.
            retry_loops: translate repetitive output again, with repetition blocked.
            recase: translate sentences in capitals or title case in their usual case, unless they
                have a prefix, and give the translation their case.
            token_scores: return log-probabilities even where they cost extra time: of each piece
                and, with a beam of 1, `score`.
            prefix: beginning of every translation, or one per sentence.
            batch_tokens: batch size limit: rows x beam x longest source; memory grows with it.
            first_line: line number of the first sentence, for messages.
            progress: called with the number of finished sentences after each batch.
            target: code of the target language, for a model of several; see `to`.
            unknown: keywords that do not exist; the message names the current one.

        Returns:
            One translation per sentence, in order.

        Raises:
            TypeError: if a sentence is not a string, or a keyword unknown.
            ValueError: as for `decode`.
        """
        for name in unknown:
            raise unknown_keyword(name, signature(Translator.translate).parameters)
        nbest = num_return_sequences
        if num_beams is None:
            num_beams = nbest if do_sample and not mbr else max(nbest, self.search.beam)
        extras = Extras(
            glossary=tuple(itertools.starmap(Term, dict(glossary).items())),
            protect=tuple(protect),
            mbr=mbr,
            retry_loops=retry_loops,
            recase=recase,
            token_scores=token_scores,
        )
        try:
            sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
            if sampling != SamplingConfig() and not do_sample:
                raise ValueError("temperature, top_k, top_p and seed need do_sample=True")
            constraints = DecodingConstraints(
                no_repeat=no_repeat_ngram_size,
                min_length=min_new_tokens,
                max_length=max_new_tokens,
                sampling=sampling if do_sample else None,
            )
            config = _overridden(self.search, beam=num_beams, alpha=length_penalty)
            _check_options(config, nbest=nbest, mbr=mbr, batch_tokens=batch_tokens)
        except ValueError as error:
            raise ValueError(api_names(str(error))) from None
        translator = self.to(target) if target is not None else self
        return translator.decode(
            [sentences] if isinstance(sentences, str) else sentences,
            beam=config.beam,
            alpha=config.alpha,
            nbest=nbest,
            constraints=constraints,
            extras=extras,
            prefix=prefix,
            batch_tokens=batch_tokens,
            first_line=first_line,
            progress=progress,
        )

    def decode(
        self,
        sentences: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        constraints: DecodingConstraints = UNCONSTRAINED,
        extras: Extras = DEFAULT_EXTRAS,
        prefix: str | Sequence[str] = "",
        batch_tokens: int = BATCH_TOKENS,
        first_line: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Translate as `translate` does, with settings as objects, for callers that hold them.

        Args:
            sentences: one sentence each; all are read before the first is translated.
            beam, alpha, nbest: num_beams, length_penalty and num_return_sequences of `translate`.
            constraints: repetition, lengths and sampling.
            extras: glossary, MBR decoding, retry of loops, recasing, token scores,
                protected text.
            prefix, batch_tokens, first_line, progress: as for `translate`.

        Raises:
            TypeError: if a sentence is not a string, or `sentences` is a single one.
            ValueError: before anything is translated: for a setting out of range, unsupported
                constraints, a line longer than `search.max_source` where `search.long` is "refuse",
                or a prefix or term that the vocabulary cannot encode. Also for a prefix that
                exceeds the maximum length. (A term that does not fit is dropped.)
        """
        config = _overridden(self.search, beam=beam, alpha=alpha)
        _check_options(config, nbest=nbest, mbr=extras.mbr, batch_tokens=batch_tokens)
        if extras.glossary:  # fail now, not at a later line that has a term
            self._searcher.scoring_engine("a glossary")
        source_texts = _checked_sentences(sentences, first_line=first_line)
        prefixes = [prefix] * len(source_texts) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(source_texts):
            raise ValueError(
                f"{len(prefixes)} prefixes for {len(source_texts)} sentences: give one per sentence"
            )
        options = DecodeOptions(
            config=config, constraints=constraints, extras=extras, batch_tokens=batch_tokens
        )
        masked = self._mask(source_texts, prefixes, extras)
        run = partial(self._translate, options=options, nbest=nbest)
        translations = run(source_texts, masked, prefixes, first_line=first_line, progress=progress)
        lost = [index for index, translation in enumerate(translations) if translation is None]
        if not lost:
            return [translation for translation in translations if translation is not None]
        texts = [source_texts[index] for index in lost]
        plain = [MaskedText(text, {}) for text in texts]
        # Without placeholders they may be too long; refusing them now would lose the others, too.
        options = replace(options, config=replace(config, long="split"))
        retranslated = iter(run(texts, plain, [prefixes[index] for index in lost], options=options))
        both = (translation or next(retranslated) for translation in translations)
        return [translation for translation in both if translation is not None]

    def _mask(
        self, texts: Sequence[str], prefixes: Sequence[str], extras: Extras
    ) -> list[MaskedText]:
        """Replace protected spans by placeholders, but not where terms or a prefix need them."""
        protection = self._tokenizer.protection
        if extras.protect and not protection:
            raise ValueError(
                "the model has no placeholders for protected text: train it with tokenizer.protect"
            )
        if extras.protect:
            protection = protection_of((*protection.patterns, *extras.protect))
        if not protection:
            return [MaskedText(text, {}) for text in texts]
        masked = [protection.mask(tidy(text)) for text in texts]
        terms = extras.glossary
        return [
            MaskedText(text, {})
            if prefix or match_terms(text, terms) != match_terms(mask.text, terms)
            else mask
            for text, prefix, mask in zip(texts, prefixes, masked, strict=True)
        ]

    def _translate(
        self,
        sentences: Sequence[str],
        masked: Sequence[MaskedText],
        prefixes: Sequence[str],
        *,
        options: DecodeOptions,
        nbest: int,
        first_line: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation | None]:
        """Translate masked sentences; None where placeholders got lost or doubled."""
        recased = [
            recase(mask.text, self._tokenizer, terms=options.extras.glossary)
            if options.extras.recase and not prefix
            else Recasing(mask.text)
            for mask, prefix in zip(masked, prefixes, strict=True)
        ]
        batch = build_requests(
            [self.tagged(recasing.text) for recasing in recased],
            prefixes,
            config=options.config,
            tokenizer=self._tokenizer,
            glossary=options.extras.glossary,
            first_line=first_line,
        )
        result = self._searcher.search(
            {request for parts in batch.requests for request in parts},
            options,
            terms=batch.terms,
            progress=SentenceProgress(batch.requests, progress),
        )
        mbr = options.extras.mbr
        return [
            self._translation(*row, result=result, nbest=nbest, mbr=mbr)
            for row in zip(sentences, batch.requests, masked, recased, strict=True)
        ]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, first_line: int = 1
    ) -> list[TargetScore]:
        """Compute the log-probability of given translations.

        Text that the model protects, and both sides have, is one piece, as in training.

        Args:
            sources: one sentence each.
            targets: the translation of each; a blank one is only EOS.
            first_line: line number of the first pair, for messages.

        Raises:
            ValueError: if the counts differ, a side exceeds the model's positions, or the torch
                engine was left out.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources)} source lines but {len(targets)} targets: line n must "
                f"translate line n"
            )
        tokenizer, sides = self._tokenizer, zip(sources, targets, strict=True)
        pairs = [Pair(self.tagged(tidy(source)), tidy(target)) for source, target in sides]
        masked = [tokenizer.protection.mask_pair(pair, every=True) for pair in pairs]
        source_ids = tokenizer.encode_all([pair.source for pair in masked])
        target_ids = tokenizer.target.encode_all([pair.target for pair in masked])
        id_pairs = list(zip(source_ids, target_ids, strict=True))
        engine = self._searcher.scoring_engine("a score")
        check_sides(id_pairs, longest=engine.longest, first_line=first_line)
        chunks = (id_pairs[start : start + CHUNK] for start in range(0, len(id_pairs), CHUNK))
        scores = [score for chunk in chunks for score in engine.score(chunk)]
        spelled = (tokenizer.target.pieces([*ids, tokenizer.EOS]) for ids in target_ids)
        masks = (tokenizer.protection.mask(pair.source) for pair in pairs)
        pieces = [tuple(map(mask.restore, row)) for mask, row in zip(masks, spelled, strict=True)]
        return [
            TargetScore(source=source, target=target, pieces=pieces, log_probs=log_probs)
            for source, target, pieces, log_probs in zip(
                sources, targets, pieces, scores, strict=True
            )
        ]

    def alternatives(self, sentence: str, after: str = "", *, count: int = 5) -> list[Continuation]:
        """Return the most probable continuations of a partial translation.

        Args:
            sentence: the source.
            after: the translation so far.
            count: number of continuations.

        Returns:
            The most probable next pieces, best first, each with the best translation after it.

        Raises:
            ValueError: for a blank or too long sentence, a beginning at the length limit, a `count`
                below 1, or if the torch engine was left out.
        """
        text = tidy(sentence)
        (ids,) = self._tokenizer.encode_all([text and self.tagged(text)])
        if not 0 < len(ids) <= self.search.max_source:
            raise ValueError(
                f"alternatives need a sentence of 1 to {self.search.max_source} pieces, not "
                f"{len(ids)}"
            )
        prefix = encode_prefix(after, self._tokenizer)
        engine = self._searcher.scoring_engine("an alternative")
        longest = min(self.search.limit(len(ids)), engine.longest)
        if len(prefix) + 1 >= longest:
            raise ValueError(
                f"a beginning of {len(prefix)} pieces does not fit a translation of at most "
                f"{longest}: shorten it"
            )
        if count < 1:
            raise ValueError(f"the number of next pieces must be at least 1, not {count}")
        request = Request(tuple(ids), prefix=prefix)
        pieces = engine.next_pieces(request, count)
        continued = [piece.id for piece in pieces if piece.id != self._tokenizer.EOS]
        results = engine.search(
            [request._replace(prefix=(*prefix, id)) for id in continued], self.search
        )
        best = {id: result[0].ids for id, result in zip(continued, results, strict=True)}
        return [
            Continuation(
                piece=self._tokenizer.target.pieces([piece.id])[0],
                probability=math.exp(piece.log_prob),
                text=self._tokenizer.target.decode(best.get(piece.id, prefix)).strip(),  # until EOS
            )
            for piece in pieces
        ]

    def alignment(self, translation: Translation, *, text: str | None = None) -> str:
        """Return the word alignment of a translation in Pharaoh format: "0-0 1-2".

        It is computed from the (first) model's attention. A sentence translated in parts has none.

        Args:
            translation: of this translator.
            text: another translation of the same source, which is aligned in its place.
        """
        tagged = self.tagged(tidy(translation.recased or translation.source))
        ids, tag = self._tokenizer.encode(tagged), self._tokenizer.split_tag(tagged)[0]
        target, target_pieces = translation.ids, translation.pieces
        if text is not None:
            target = (*self._tokenizer.target.encode(tidy(text)), self._tokenizer.EOS)
            target_pieces = tuple(self._tokenizer.target.pieces(target))
        too_long = max(len(ids) + 1, len(target)) > self.model.config.longest
        if len(ids) == len(tag) or translation.parts > 1 or too_long:
            return ""
        source = [*ids, self._tokenizer.EOS]
        attention = cross_attention(self.model, source, target)
        # A tag is no word, as EOS is none.
        pieces = [EOS_PIECE] * len(tag) + self._tokenizer.pieces(source)[len(tag) :]
        return to_pharaoh(align(attention, pieces, target_pieces))

    def _translation(
        self,
        sentence: str,
        requests: Sequence[Request],
        mask: MaskedText,
        recasing: Recasing,
        *,
        result: DecodeResult,
        nbest: int,
        mbr: bool,
    ) -> Translation | None:
        """Build a translation from the hypotheses of each part; a blank sentence has none.

        None if the placeholders of the source got lost or doubled.
        """
        parts = [result.hypotheses[request] for request in requests]
        # MBR has reranked each part: only its first hypothesis counts.
        best, *others = combine_parts([part[:1] for part in parts] if mbr else parts, nbest)
        text = self._text(best)
        if mask.spans and not mask.is_intact(text):
            return None
        if self._tokenizer.placeholders:
            best = tuple(self._with_spans(hypothesis, mask) for hypothesis in best)
        ids = [id for hypothesis in best for id in hypothesis.ids]
        pieces = tuple(self._tokenizer.target.pieces(ids))
        log_probs = tuple(value for hypothesis in best for value in hypothesis.log_probs)
        if len(log_probs) < len(ids):  # a part without token scores
            log_probs = ()
        confidence = self.confidence or Confidence()
        recased = mask.restore(recasing.text) if recasing.style else ""
        examined = log_probs and confidence.max_fragmentation  # else it has no effect
        split = self._fragmentation(recased or sentence) if examined else 0.0
        return Translation(
            source=sentence,
            text=mask.restore(recasing.restore(text)),
            score=total_score(best),
            ids=tuple(ids),
            pieces=pieces,
            log_probs=log_probs,
            others=tuple(
                Alternative(
                    text=mask.restore(recasing.restore(self._text(other))), score=total_score(other)
                )
                for other in others
            ),
            parts=max(1, len(parts)),
            flag=next((result.flags[r] for r in requests if r in result.flags), ""),
            mended=any(request in result.retried for request in requests),
            recased=recased,
            confidence=confidence.sentence_confidence(log_probs, fragmentation=split),
            unfamiliar=confidence.is_unfamiliar(log_probs, fragmentation=split),
            words=tuple(
                (recasing.restore(word), value)
                for word, value in word_confidences(confidence, pieces, log_probs)
            ),
        )

    def _fragmentation(self, sentence: str) -> float:
        source = tidy(sentence)
        return fragmentation(source, self._tokenizer.pieces(self._tokenizer.encode(source)))

    def _with_spans(self, hypothesis: Hypothesis, mask: MaskedText) -> Hypothesis:
        """Spell the placeholders out; only the first piece of a span counts for its score."""
        ids: list[int] = []
        log_probs: list[float] = []
        for index, id in enumerate(hypothesis.ids):
            symbol = self._tokenizer.placeholders.get(id)
            span = self._tokenizer.encode_span(mask.spans.get(symbol, "")) if symbol else [id]
            ids += span
            if span and hypothesis.log_probs:
                log_probs += [hypothesis.log_probs[index], *[0.0] * (len(span) - 1)]
        return replace(hypothesis, ids=tuple(ids), log_probs=tuple(log_probs))

    def _text(self, hypotheses: Sequence[Hypothesis]) -> str:
        decode = self._tokenizer.target.decode
        texts = filter(None, (decode(hypothesis.ids).strip() for hypothesis in hypotheses))
        return "".join(
            text if all(map(has_unspaced_script, (before, text))) else f" {text}"
            for before, text in itertools.pairwise(["", *texts])
        ).lstrip()


def only_target_tag(tokenizer: Tokenizer, directions: Sequence[LanguagePair]) -> str:
    """Return the tag of a model's target language; "" if it has several, or no tag."""
    targets = {pair.target for pair in directions}
    return tokenizer.find_tag(targets.pop()) if len(targets) == 1 else ""


def add_target_tag(
    text: str, tokenizer: Tokenizer, directions: Sequence[LanguagePair], *, tag: str
) -> str:
    """Put a target language's tag before a text that has none of a language.

    Args:
        text: a source.
        tokenizer: of a model.
        directions: of the same model; empty if it does not name them.
        tag: from `find_target_tag` or `only_target_tag`.

    Raises:
        ValueError: if the model names several target languages, and the tag is empty, the text not.
    """
    known = tokenizer.tags
    if not known or not {*known.values()}.isdisjoint(tokenizer.split_tag(text)[0]):
        return text
    if not tag and directions and tidy(text):
        targets = sorted({pair.target for pair in directions})
        raise ValueError(
            f"the model translates into {', '.join(targets)}: put the tag of a target language, "
            f"such as {next(iter(known))}, before each text (translate and augment have --to)"
        )
    return f"{tag}{text}" if tag else text


def find_target_tag(
    tokenizer: Tokenizer, directions: Sequence[LanguagePair], target: str, *, source: str = ""
) -> str:
    """Return the reserved piece that names a target language; "" for a model without tags.

    Args:
        tokenizer: of a model.
        directions: of the same model; empty if it does not name them.
        target: language code.
        source: code of the source language; "" is not checked.

    Raises:
        ValueError: if the model does not translate into that language, or from the source.
    """
    tag = tokenizer.find_tag(target)
    sources, targets = {pair.source for pair in directions}, {pair.target for pair in directions}
    if not tokenizer.tags and not directions:
        raise ValueError(
            f"the model does not translate into {target!r} on request: it has one direction, so "
            f"leave out the target language (--to)"
        )
    for side, code, known in (("from", source, sources), ("into", target, targets)):
        if code and not (any(same_language(code, other) for other in known) if known else tag):
            listed = f", only {side} {', '.join(sorted(known))}" if known else ""
            raise ValueError(f"the model does not translate {side} {code!r}{listed}")
    if not tag and tokenizer.tags:
        raise ValueError(f"the vocabulary has no tag for the target language {target!r}")
    return tag


def known_directions(bundle: Bundle) -> tuple[LanguagePair, ...]:
    """Return the directions of a bundle: several, or the only one if its languages are known."""
    if bundle.tokenizer.tags or bundle.languages.missing:
        return bundle.directions
    return bundle.directions or (LanguagePair(*bundle.languages.codes),)


def _reload_to(reload: Callable[[], Translator], target: str) -> Translator:
    return reload().to(target)


def fit_to_positions(search: SearchConfig, *, longest: int) -> SearchConfig:
    """Limit the source length to the model's positions, EOS included."""
    return replace(search, max_source=min(search.max_source, longest - 1))


def _overridden(search: SearchConfig, *, beam: int | None, alpha: float | None) -> SearchConfig:
    return replace(
        search,
        beam=search.beam if beam is None else beam,
        alpha=search.alpha if alpha is None else alpha,
    )


def _check_options(config: SearchConfig, *, nbest: int, mbr: bool, batch_tokens: int) -> None:
    if mbr and nbest != 1:
        raise ValueError(f"MBR decoding returns one translation: nbest must be 1, not {nbest}")
    if not 1 <= nbest <= config.beam:
        raise ValueError(
            f"nbest must be from 1 to the beam, which is {config.beam}, not {nbest}: "
            f"request fewer translations or a larger beam"
        )
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, not {batch_tokens}")


def _checked_sentences(sentences: Iterable[str], *, first_line: int) -> list[str]:
    if isinstance(sentences, str):
        raise TypeError("decode takes a list of sentences, not a string: put it in brackets")
    texts = list(sentences)
    for line, sentence in enumerate(texts, first_line):
        if not isinstance(sentence, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"line {line} is not a string but {type(sentence).__name__}")
    return texts
