"""The engine in JavaScript computes what torch computes."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.conftest import SHAPE, made
from tests.node import run_node

from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.attention import Attention
from transduce.model.config import ModelConfig
from transduce.model.layers import Positions
from transduce.model.trace import intermediate_results, trace
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig

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
        for ours, theirs in zip(expected, answer, strict=True):
            assert [list(hypothesis.ids) for hypothesis in ours] == [
                hypothesis["ids"] for hypothesis in theirs
            ]
            assert [hypothesis.score for hypothesis in ours] == pytest.approx(
                [hypothesis["score"] for hypothesis in theirs], abs=1e-4
            )
            assert [hypothesis.finished for hypothesis in ours] == [
                hypothesis["finished"] for hypothesis in theirs
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
const { Matrix, linear } = await import(`${engine}/tensor.js`);
const random = (matrix) => {
  for (let i = 0; i < matrix.data.length; i++) matrix.data[i] = Math.sin(i * 12.9898) * 43.7 % 1;
  return matrix;
};
const gaps = [];
for (const [inner, outputs] of [[4, 4], [8, 12], [128, 20]]) {
  const kernels = await Kernels.create(Kernels.length(outputs, inner));
  const weight = random(kernels.matrix(outputs, inner));
  const plain = new Matrix(outputs, inner, weight.data.slice());
  for (let rows = 1; rows <= 9; rows++) {
    const x = random(new Matrix(rows, inner));
    const [fast, written] = [linear(x, weight), linear(x, plain)];
    gaps.push(Math.max(...fast.data.map((value, i) => Math.abs(value - written.data[i]))));
  }
}
const odd = (await Kernels.create(100)).matrix(3, 5);
answer({ gaps, kernel: odd.kernel });
""",
        None,
    )

    assert max(answer["gaps"]) < 1e-5
    assert answer["kernel"] is None, "a shape that the kernels lack is multiplied by tensor.js"


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
        tensor = getattr(expected, part)
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
        tensor = expected[f"{part}.feed_forward_output" if output == "output" else key]
        if output in ("queries", "keys", "values"):
            tensor = tensor.transpose(0, 1)  # JavaScript keeps the heads side by side
        numbers = torch.tensor([-torch.inf if value is None else value for value in values])
        torch.testing.assert_close(
            numbers.view(tensor.shape), tensor.contiguous(), atol=3e-5, rtol=3e-5, msg=key
        )
    missing = {name.rpartition(".")[2] for name in {*expected} - {*answer}}
    assert missing == {"mean", "variance", "feed_forward_output"}


SWITCHES: list[tuple[dict[str, Any], str]] = [
    ({"noScaling": True}, "scaling"),
    ({"noPositions": True}, "positions"),
    ({"head": {"attention": "decoder.1.cross_attention", "head": 2}}, "head"),
    ({"temperature": 2}, "temperature"),
    ({"residual": "encoder.1"}, "residual"),
    ({"layer": "decoder.0"}, "layer"),
]


@pytest.mark.parametrize(("switches", "part"), SWITCHES)
def test_a_switch_does_what_the_same_change_does_in_torch(
    switches: dict[str, Any], part: str, tmp_path: Path
):
    model = model_of(KERNELS)
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
    with torch.inference_mode():
        unchanged = model(torch.tensor([source]), None, torch.tensor([target]))
        _switch_off(model, part)
        expected = model(torch.tensor([source]), None, torch.tensor([target]))
    torch.testing.assert_close(
        torch.tensor(answer).view_as(expected), expected, atol=2e-5, rtol=2e-5
    )
    assert not torch.allclose(expected, unchanged, atol=1e-2), "the change has an effect"


def _switch_off(model: Transformer, part: str) -> None:
    """Make the change of a switch by changing weights and modules."""
    config = model.config
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    if part in ("scaling", "temperature"):
        factor = config.d_k**0.5 if part == "scaling" else 0.5
        for attention in attentions:
            attention.query.weight.mul_(factor)
    elif part == "positions":
        assert isinstance(model.positions, Positions)
        model.positions.table.zero_()
    elif part == "head":
        attention = list(model.decoder)[1].cross_attention
        attention.out.weight[:, 2 * config.d_v : 3 * config.d_v] = 0
    elif part == "layer":
        layer = next(iter(model.decoder))
        for linear in (layer.self_attention.out, layer.cross_attention.out):
            linear.weight.zero_()
        layer.feed_forward.outer.weight.zero_()
        layer.feed_forward.outer.bias.zero_()
    else:
        layer = list(model.encoder)[1]
        for norm in (layer.self_attention_norm, layer.feed_forward_norm):
            norm.forward = lambda x, sublayer, norm=norm: norm.norm(sublayer(x))
