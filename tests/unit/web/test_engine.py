"""The engine in JavaScript computes what torch computes."""

import base64
import hashlib
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.conftest import SHAPE, made
from tests.faults.damaging import tiny_bundle
from tests.node import run_node
from tests.switched import switched

from transduce.data.segmentation import sentence_spans
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.repetition import (
    detect_repetition,
    is_improvement,
    is_noise,
    novel_log_prob,
)
from transduce.inference.translator import Translator
from transduce.model.config import ModelConfig
from transduce.model.trace import intermediate_results, trace
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig
from transduce.web.page import describe, engine

# Multiples of four, which the kernels need; heads of another size than d_model / heads.
KERNELS = replace(SHAPE, vocab_size=40, d_model=16, d_ff=24, heads=3, d_k=4, d_v=8)
CONFIGS = {
    "paper": SHAPE,
    "kernels": KERNELS,
    "pre-norm": replace(KERNELS, norm="pre"),
    "gelu": replace(SHAPE, activation="gelu"),
    "silu": replace(SHAPE, activation="silu", output_bias=True),
    "learned positions": replace(KERNELS, positions="learned", max_positions=60),
    "biases": replace(KERNELS, attention_bias=True, output_bias=True),
    "local": replace(SHAPE, radius=2),
}
SENTENCES = [[5], [3, 4, 5, 6, 7, 8, 9], [2, 18, 2, 18, 7], list(range(2, 18))]
LOAD = """
const { loadTensors } = await import(`${engine}/model_file.js`);
const { Transformer } = await import(`${engine}/transformer.js`);
const bytes = new Uint8Array(readFileSync(payload.weights));
const model = new Transformer(payload.config, await loadTensors(bytes, { fast: payload.fast }));
"""


def model_of(config: ModelConfig) -> Transformer:
    """With all weights random: at the start biases and gains are zeros and ones."""
    model = made(config).eval()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.embedding.weight[config.pad].zero_()
    return model


def payload_of(model: Transformer, folder: Path, **rest: object) -> Mapping[str, object]:
    file = folder / "model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, file)
    return {"config": asdict(model.config), "weights": str(file), "fast": True} | rest


@pytest.mark.parametrize("name", CONFIGS)
def test_search_finds_the_hypotheses_of_torch(name: str, tmp_path: Path):
    model = model_of(CONFIGS[name])
    pad = model.config.pad
    engine = TorchEngine(model, pad=pad, eos=0, device="cpu")
    script = (
        LOAD
        + """
const { IncrementalDecoder } = await import(`${engine}/incremental_decoder.js`);
const { beamSearch } = await import(`${engine}/search.js`);
const translate = (ids, beam) => {
  const decoder = new IncrementalDecoder(model, model.encode([...ids, 0]));
  const search = beamSearch(decoder, {
    beam, alpha: 0.6, limit: ids.length + 8, eos: 0, pad: model.pad });
  let step = search.next();
  while (!step.done) step = search.next();
  return step.value;
};
answer(payload.beams.map((beam) => payload.sentences.map((ids) => translate(ids, beam))));
"""
    )
    answers = run_node(script, payload_of(model, tmp_path, sentences=SENTENCES, beams=[1, 3]))
    for beam, answer in zip((1, 3), answers, strict=True):
        config = SearchConfig(beam=beam, alpha=0.6, extra=8)
        expected = [engine.search([Request(tuple(ids))], config)[0] for ids in SENTENCES]
        for reference, actual in zip(expected, answer, strict=True):
            assert [list(hypothesis.ids) for hypothesis in reference] == [
                hypothesis["ids"] for hypothesis in actual
            ]
            assert [hypothesis.score for hypothesis in reference] == pytest.approx(
                [hypothesis["score"] for hypothesis in actual], abs=1e-4
            )
            assert [hypothesis.finished for hypothesis in reference] == [
                hypothesis["finished"] for hypothesis in actual
            ]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_torch(name: str, fast: bool, tmp_path: Path):
    model = model_of(CONFIGS[name])
    source, target = [*SENTENCES[1], 0], [model.config.pad, 4, 9, 2]
    rows = run_node(
        LOAD + "answer(Array.from(model.forward(payload.source, payload.target).data));",
        payload_of(model, tmp_path, source=source, target=target, fast=fast),
    )
    with torch.inference_mode():
        expected = model(torch.tensor([source]), None, torch.tensor([target]))
    torch.testing.assert_close(torch.tensor(rows).view_as(expected), expected, atol=2e-5, rtol=2e-5)


def test_kernels_multiply_any_number_of_rows():
    answer = run_node(
        """
const { Kernels } = await import(`${engine}/kernels.js`);
const { Int8Matrix, Matrix, linear } = await import(`${engine}/tensor.js`);
const numbers = (Type, length, scale) =>
  Type.from({ length }, (_, i) => scale * (Math.sin(i * 12.9898) * 43.7 % 1));
const gaps = [];
const multiply = (weight, plain) => {
  for (let rows = 1; rows <= 9; rows++) {
    const x = new Matrix(rows, plain.columns, numbers(Float32Array, rows * plain.columns, 1));
    const [fast, written] = [linear(x, weight), linear(x, plain)];
    gaps.push(Math.max(...fast.data.map((value, i) => Math.abs(value - written.data[i]))));
  }
};
for (const [inner, outputs] of [[8, 4], [8, 12], [24, 6], [128, 20]]) {
  const plain = new Matrix(outputs, inner, numbers(Float32Array, outputs * inner, 1));
  const int8 = new Int8Matrix(outputs, inner, {
    data: numbers(Int8Array, outputs * inner, 127), scales: numbers(Float32Array, outputs, 0.01) });
  const kernels = await Kernels.create(Kernels.bytes(plain) + Kernels.bytes(int8));
  multiply(kernels.matrix(plain), plain);
  multiply(kernels.matrix(int8), int8.toFloat32());
}
const kernels = await Kernels.create(1000);
const odd = [new Matrix(3, 5), new Int8Matrix(4, 4, {
  data: new Int8Array(16), scales: new Float32Array(4) })];
answer({ gaps, kernels: odd.map((matrix) => kernels.matrix(matrix).kernel) });
""",
        None,
    )

    assert len(answer["gaps"]) == 72
    assert max(answer["gaps"]) < 1e-5
    assert answer["kernels"] == [None, None], "the kernels lack these shapes"


def test_without_webassembly_there_are_no_kernels():
    script = """
const { Kernels } = await import(`${engine}/kernels.js`);
globalThis.WebAssembly = undefined;
answer(await Kernels.create(1000));
"""
    assert run_node(script, None) is None


def test_sha256_without_the_browser_s_own_is_the_standard_s():
    texts = [b"a" * length for length in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1000)]
    texts.append(bytes(range(256)) * 300)
    script = """
const { computeSha256 } = await import(`${engine}/sha256.js`);
const digests = payload.map((bytes) => computeSha256(Uint8Array.from(bytes)));
answer(digests.map((digest) => Buffer.from(digest).toString("hex")));
"""
    digests = run_node(script, [list(text) for text in texts])

    assert digests == [hashlib.sha256(text).hexdigest() for text in texts]


def test_half_precision_is_read_as_numpy_reads_it():
    bits = [0, 1, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x8001, 0xBC01, 0xC8F3]
    values = run_node(
        """
const { halfToFloat } = await import(`${engine}/model_file.js`);
answer(payload.map(halfToFloat));
""",
        bits,
    )

    assert (
        values
        == torch.tensor(bits, dtype=torch.int32)
        .to(torch.int16)
        .view(torch.float16)
        .double()
        .tolist()
    )


def test_a_trace_holds_the_weights_that_torch_records(tmp_path: Path):
    model = model_of(KERNELS)
    source, target = [5, 6, 7, 0], [9, 8, 0]
    answer = run_node(
        LOAD
        + """
const { trace } = await import(`${engine}/trace.js`);
const tensors = trace(model, payload.source, payload.target);
const weights = (name) => tensors.get(`${name}.weights`).map(({ data }) => Array.from(data));
answer({
  encoder: model.encoder.map((_, i) => weights(`encoder.${i}.self_attention`)),
  decoder: model.decoder.map((_, i) => weights(`decoder.${i}.self_attention`)),
  cross: model.decoder.map((_, i) => weights(`decoder.${i}.cross_attention`)),
});
""",
        payload_of(model, tmp_path, source=source, target=[KERNELS.pad, *target[:-1]]),
    )
    expected = trace(model, source, target)

    for part in ("encoder", "decoder", "cross"):
        tensor = torch.from_numpy(getattr(expected, part))
        recorded = torch.tensor(answer[part]).view_as(tensor)
        torch.testing.assert_close(recorded, tensor, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["paper", "pre-norm", "silu", "learned positions", "local"])
def test_every_number_is_that_of_torch(name: str, tmp_path: Path):
    model = model_of(CONFIGS[name])
    pad = model.config.pad
    source, target = [5, 6, 7, 2, 11, 0], [9, 8, 4, 0]
    answer = run_node(
        LOAD
        + """
const { trace } = await import(`${engine}/trace.js`);
const tensors = trace(model, payload.source, payload.target);
const numbers = ({ data }) => Array.from(data, (value) => (value === -Infinity ? null : value));
answer(Object.fromEntries([...tensors].map(([name, value]) =>
  [name, Array.isArray(value) ? value.flatMap(numbers) : numbers(value)])));
""",
        payload_of(model, tmp_path, source=source, target=[pad, *target[:-1]]),
    )
    expected = intermediate_results(model, source, target)

    for key, values in answer.items():
        part, _, output = key.rpartition(".")
        names = {"output": "feed_forward_output", "normalized": "residual"}
        name = f"{part}.{names.get(output, output)}".lstrip(".")
        tensor = torch.from_numpy(expected[name].copy())
        if output == "normalized":
            tensor = model.get_submodule(f"{part}.norm")(tensor).detach()
        if output in ("queries", "keys", "values"):
            tensor = tensor.transpose(0, 1)  # JavaScript keeps the heads side by side
        numbers = torch.tensor([-torch.inf if value is None else value for value in values])
        torch.testing.assert_close(
            numbers.view(tensor.shape), tensor.contiguous(), atol=3e-5, rtol=3e-5, msg=key
        )
    missing = {name.rpartition(".")[2] for name in {*expected} - {*answer}}
    assert missing == {"mean", "variance", "feed_forward_output"}


def test_repetition_is_judged_as_in_python():
    generator = random.Random(4)

    def pieces() -> list[str]:
        unit = generator.choices(["▁a", "▁b", "c", ".", "1", "▁é"], k=generator.randint(1, 7))
        rest = generator.choices(["▁a", "▁d", "c", "-"], k=generator.randint(0, 9))
        return [*rest, *unit * generator.randint(1, 11), *rest, *["</s>"] * generator.randint(0, 1)]

    cases: list[dict[str, Any]] = []
    for _ in range(400):
        target = pieces()
        log_probs = [-generator.random() for _ in target]
        ids = [sum(map(ord, piece)) for piece in target]
        cases.append(
            {"source": pieces()[:-1], "target": target, "ids": ids, "logProbs": log_probs}
            | {"loss": generator.choice([0.1, 0.4, -0.2])}
        )
    script = """
const repetition = await import(`${engine}/repetition.js`);
const { repeatsItself, isNoise, isImprovement, novelLogProb } = repetition;
answer(payload.map(({ source, target, ids, logProbs, loss }) => [
  repeatsItself(source, target), isNoise(source), isImprovement(source, target, loss),
  Math.max(-1000, novelLogProb(ids, logProbs))]));
"""
    answers = run_node(script, cases)

    flags = {True: 0, False: 0}
    for case, (repeats, noise, improves, novel) in zip(cases, answers, strict=True):
        source, target = case["source"], case["target"]
        assert repeats == bool(detect_repetition(source, target)), case
        assert noise == is_noise(source), case
        assert improves == is_improvement(source, target, loss=case["loss"]), case
        expected = novel_log_prob(case["ids"], case["logProbs"])
        assert novel == pytest.approx(max(-1000.0, expected))
        flags[repeats] += 1
    assert min(flags.values()) > 50, "both happen"


SENTENCES_OF_TEXTS = [
    "",
    " \n\t ",
    "A dog runs. It barks!  Why? Nobody knows… Well",
    "Mr. Brown met Dr. Ho at St. Mary. He left.",
    "Hunde z. B. Dackel, Katzen usw. Die Tiere, d. h. alle, am 3. Mai. Im 19. Jahrhundert",
    "No. 5 and Fig. 3, Nr. 7, Hauptstr. 5. He said no. Then he left.",
    "I live in the U.S. It is big. J. S. Bach. Vitamin C. It is good. M. Dupont est là",
    'He said "Go." Then he left. »Komm!« Er kam. Il dit : « Bonjour. » Puis il part.',
    "It is so.[1][23] Nobody knew. A thing . . . was odd. . . . Then",
    "犬だ。猫！「はい。」鳥",
    "क्या हाल है। मैं ठीक हूँ।",
    "hi. how are you?",
    "Hi. how are you?",
    "- Yes\r\n * No\n2) Maybe\n-5 degrees\n1. Item. Go",
]


def test_sentences_end_where_they_do_in_python():
    generator = random.Random(9)
    parts = ["Dr", "z", "B", "am", "3", "19", "Mai", "No", "U.S", "The", "he", "Él", "日本", "1999"]
    parts += [*".!?…。"] * 2 + [*'»«“"()[]-\u00a0\n'] + ["[12]", ". . .", "...", ". ", "! ", "1) "]
    texts = [
        "".join(part + generator.choice(["", " "]) for part in generator.choices(parts, k=14))
        for _ in range(600)
    ]
    texts += SENTENCES_OF_TEXTS
    _, description = describe(tiny_bundle(), precision="float32")
    script = """
const { splitSentences } = await import(`${engine}/sentences.js`);
answer(payload.texts.map((text) => splitSentences(text, payload.segmentation)));
"""
    answers = run_node(script, {"texts": texts, "segmentation": description["segmentation"]})

    for text, answer in zip(texts, answers, strict=True):
        expected = [text[start:end] for start, end in sentence_spans(text)]
        assert [part["sentence"] for part in answer if part["sentence"]] == expected
        assert "".join(part["sentence"] + part["gap"] for part in answer) == text


def test_sentences_are_spaced_as_the_script_of_their_translation():
    script = """
const { translateText } = await import(`${engine}/translator.js`);
const { segmentation, texts } = payload;
answer(texts.map(([text, translation]) => {
  const translateLine = function* () { return { text: translation, alternatives: [] }; };
  return translateText({ segmentation, translateLine }, text).next().value.text;
}));
"""
    _, description = describe(tiny_bundle(), precision="float32")
    texts = [
        ["我来了。他走了。", "I go."],
        ["我来了。他走了。", "行。"],
        ["They go. He stays.", "C."],
    ]
    payload = {"texts": texts, "segmentation": description["segmentation"]}

    assert run_node(script, payload) == ["I go. I go.", "行。行。", "C. C."]


def test_parts_of_a_sentence_are_joined_by_spaces_where_the_script_has_them():
    parts = [["Er geht", "", "schnell."], ["我来", "了。"], ["我来", "A", "B", "了"], [""]]
    script = """
const { joinParts } = await import(`${engine}/sentences.js`);
answer(payload.map(joinParts));
"""
    joined = run_node(script, parts)

    assert joined == ["Er geht schnell.", "我来了。", "我来 A B 了", ""]


def test_long_sentences_fit_the_learned_positions():
    bundle = tiny_bundle()
    config = replace(bundle.model.config, positions="learned", max_positions=7)
    bundle = replace(bundle, model=model_of(config))
    weights, description = describe(bundle, precision="float32")
    texts = ["a dog runs ein Hund a dog", "a dog", "runs"]
    script = """
const { loadTranslator } = await import(`${engine}/loading.js`);
const { explore } = await import(`${engine}/exploration.js`);
const bytes = new Uint8Array(Buffer.from(payload.weights, "base64"));
const translator = await loadTranslator(payload.description, bytes, { fast: false });
const last = (search) => {
  let step = search.next();
  while (!step.done) step = search.next();
  return step.value;
};
answer(payload.texts.map((text) => ({
  text: last(translator.translateLine(text, { retry: true })).text,
  problem: last(explore(translator, text)).problem ?? "",
})));
"""
    encoded = base64.b64encode(weights).decode()
    answers = run_node(script, {"description": description, "weights": encoded, "texts": texts})

    expected = Translator.from_bundle(bundle, engine="torch").translate(texts)
    assert [answer["text"] for answer in answers] == [best.text for best in expected]
    assert "above 6." in answers[0]["problem"]
    assert answers[-1]["problem"] == ""


@pytest.mark.parametrize(
    ("kept", "status"), [("THE WEIGHTS", 200), ("the", 200), ("the weights, long", 200), ("", 404)]
)
def test_weights_that_a_cache_kept_damaged_are_fetched_anew(kept: str, status: int):
    content = b"the weights"
    sha256 = hashlib.sha256(content).hexdigest()
    weights = {"parts": ["weights-1.bin"], "size": len(content), "sha256": sha256}
    script = """
const { fetchWeights } = await import(`${engine}/loading.js`);
const { kept, status, weights } = payload;
const modes = [];
let served = payload.served;
globalThis.fetch = async (_, { cache }) => {
  modes.push(cache);
  return cache === "reload" ? new Response(served) : new Response(kept, { status });
};
const read = () => fetchWeights(weights, "http://localhost/", () => {});
const first = new TextDecoder().decode(await read());
served = "damaged";
const second = await read().catch((error) => error.message);
answer({ first, second, modes });
"""
    payload = {"weights": weights, "kept": kept, "status": status, "served": content.decode()}

    result = run_node(script, payload)

    assert result["first"] == "the weights"
    assert "damaged or incomplete" in result["second"]
    assert result["modes"] == ["force-cache", "reload"] * 2


def test_no_module_overrides_a_function_of_another():
    defined = re.findall(
        r"^(?:async )?(?:function\*?|class|const|let) (\w+)", engine(), re.MULTILINE
    )

    assert len(defined) > 50
    assert [name for name, count in Counter(defined).items() if count > 1] == []


EDIT = {"attention": "encoder.1.self_attention", "head": 1, "query": 2}
SWITCHES: dict[str, dict[str, Any]] = {
    "scaling": {"noScaling": True},
    "positions": {"noPositions": True},
    "mask": {"noMask": True},
    "temperature": {"temperature": 2},
    "head": {"heads": [{"attention": "decoder.1.cross_attention", "head": 2}]},
    "two heads": {
        "heads": [{"attention": "encoder.0.self_attention", "head": head} for head in (0, 2)]
    },
    "layer": {"layer": "decoder.0"},
    "residual": {"residual": "encoder.1"},
    "weights": {"weights": [EDIT | {"memory": 0, "value": 0.7}, EDIT | {"memory": 3, "value": 0}]},
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_does_what_the_same_change_does_in_torch(name: str, tmp_path: Path):
    model = model_of(replace(KERNELS, decoder_layers=2))
    switches = SWITCHES[name]
    source, target = [5, 6, 7, 0], [KERNELS.pad, 9, 8]
    answer = run_node(
        LOAD
        + """
const { trace } = await import(`${engine}/trace.js`);
const { source, target, switches } = payload;
answer(Array.from(trace(model, source, target, switches).get("logits").data));
""",
        payload_of(model, tmp_path, source=source, target=target, switches=switches),
    )
    batch = torch.tensor([source]), None, torch.tensor([target])
    with torch.inference_mode():
        unchanged = model(*batch)
    with switched(model, switches):
        expected = model(*batch)
    torch.testing.assert_close(
        torch.tensor(answer).view_as(expected), expected, atol=2e-5, rtol=2e-5
    )
    assert not torch.allclose(expected, unchanged, atol=1e-2), "the change has an effect"


def test_a_search_with_switches_is_the_usual_search_where_they_change_nothing(tmp_path: Path):
    model = model_of(KERNELS)
    answer = run_node(
        LOAD
        + """
const { IncrementalDecoder } = await import(`${engine}/incremental_decoder.js`);
const { SwitchedDecoder } = await import(`${engine}/trace.js`);
const { beamSearch } = await import(`${engine}/search.js`);
const settings = { beam: 3, alpha: 0.6, limit: 12, eos: 0, pad: model.pad };
const search = (decoder) => {
  const steps = [...beamSearch(decoder, settings)];
  return { last: steps.at(-1).candidates, ids: steps.at(-1).finished.map(({ ids }) => ids) };
};
answer(payload.sentences.map((ids) => [
  search(new IncrementalDecoder(model, model.encode([...ids, 0]))),
  search(new SwitchedDecoder(model, [...ids, 0], { temperature: 1 })),
]));
""",
        payload_of(model, tmp_path, sentences=SENTENCES),
    )

    for usual, switched_search in answer:
        assert usual["ids"] == switched_search["ids"]
        assert any(candidate.get("finished") for candidate in usual["last"]), "the last step shows"
