"""onnxruntime and transformers.js read what we write."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exports import CONFIG, ODD, SENTENCES, bundle_of, one_vocabulary

from transduce.data.corpus import tidy
from transduce.export.onnx_folder import prove_onnx, write_onnx
from transduce.export.onnx_graph import cache_names
from transduce.export.proof import samples

pytest.importorskip("onnx", reason="onnx is not installed: pip install -e .[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install -e .[onnx]")
tokenizers = pytest.importorskip("tokenizers", reason="pip install -e .[onnx]")

SCRIPT = """
import { AutoModelForSeq2SeqLM, AutoTokenizer, env } from "PACKAGE";
env.allowRemoteModels = false;
env.localModelPath = process.argv[2];
const tokenizer = await AutoTokenizer.from_pretrained("model");
const model = await AutoModelForSeq2SeqLM.from_pretrained("model", { dtype: "fp32" });
const output = [];
for (const [text, limit] of JSON.parse(process.argv[3])) {
  const inputs = tokenizer(text);
  const options = { max_new_tokens: limit, num_beams: 1, do_sample: false };
  const ids = await model.generate({ ...inputs, ...options });
  output.push([Array.from(inputs.input_ids.data, Number), Array.from(ids.data, Number)]);
}
console.log(JSON.stringify(output));
"""


@pytest.fixture(scope="module", params=["post", "pre"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "model"
    write_onnx(bundle_of(replace(CONFIG, norm=request.param), one_vocabulary()), folder)
    return folder


@pytest.mark.parametrize("stored", [0, 3])
def test_a_padded_batch_with_and_without_a_cache(folder: Path, stored: int):
    norm = "pre" if json.loads((folder / "config.json").read_text())["normalize_before"] else "post"
    bundle = bundle_of(replace(CONFIG, norm=norm), one_vocabulary())
    config, pad = bundle.model.config, bundle.model.config.pad
    source = np.array([[5, 7, 11, 0, pad], [13, 17, 19, 23, 0]])
    target = np.array([[pad, 2, 3, 5], [pad, 7, 0, 11]])
    mask = (source != pad).astype(np.int64)
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / "onnx" / f"{name}.onnx")
        for name in ("encoder_model", "decoder_model_merged")
    )
    (hidden,) = encoder.run(None, {"input_ids": source, "attention_mask": mask})
    names = [name for _, name in cache_names(config)]
    # Optimum gives a first step a cache of one row, which must be ignored.
    cache = [np.full((2, config.heads, stored, config.d_k), 7, np.float32) for _ in names]
    logits: list[np.ndarray] = []

    for used, ids in ((False, target[:, :2]), (True, target[:, 2:])):
        part, *cache = decoder.run(
            None,
            {
                "input_ids": ids,
                "encoder_hidden_states": hidden,
                "encoder_attention_mask": mask,
                "use_cache_branch": np.array([used]),
                **{f"past_key_values.{name}": a for name, a in zip(names, cache, strict=True)},
            },
        )
        logits.append(part)

    with torch.no_grad():
        kept = torch.from_numpy(source != pad)[:, None, None]
        expected = bundle.model(torch.from_numpy(source), kept, torch.from_numpy(target))
    actual = torch.from_numpy(np.concatenate(logits, axis=1))
    torch.testing.assert_close(actual[..., :-1], expected[..., :-1], rtol=0, atol=1e-4)
    assert (actual[..., -1] < actual[..., :-1].min()).all()  # PAD is never output


@pytest.mark.parametrize("kind", ["bpe", "char", "lower-cased"])
def test_the_tokenizers_agree_on_odd_text(kind: str, tmp_path: Path):
    tokenizer = one_vocabulary(kind="char" if kind == "char" else "bpe")
    if kind == "lower-cased":
        tokenizer = one_vocabulary(byte_fallback=True, lower_case=True)
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    write_onnx(bundle, tmp_path / "model")
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    reference.encode_special_tokens = True

    for text in map(tidy, (*ODD, *SENTENCES, "A MAN", "Ẹ̀", "ΑΣ İ")):
        ids = tokenizer.encode(text)
        assert reference.encode(text).ids == [*ids, 0], text
        assert 1 in ids or reference.decode(ids) == tokenizer.decode(ids), text


def test_another_model_is_found_out(tmp_path: Path):
    bundle, other = (bundle_of(CONFIG, one_vocabulary()) for _ in range(2))
    other.model.embedding.weight.data[:-1] *= -1.0
    write_onnx(other, tmp_path / "model")

    proof = prove_onnx(bundle, tmp_path / "model", SENTENCES[:2])

    assert not proof.holds
    assert proof.gap is not None
    assert proof.gap > 0.1


def test_the_lengths_that_the_folder_names_end_with_learned_positions(tmp_path: Path):
    config = replace(CONFIG, positions="learned", max_positions=60)

    write_onnx(bundle_of(config, one_vocabulary()), tmp_path / "model")

    files = {"config": "max_position_embeddings", "generation_config": "max_length"}
    for name, field in {**files, "tokenizer_config": "model_max_length"}.items():
        assert json.loads((tmp_path / "model" / f"{name}.json").read_text())[field] == 60


def test_a_folder_with_other_files_is_refused(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ValueError, match=r"it holds mine\.txt"):
        write_onnx(bundle_of(CONFIG, one_vocabulary()), tmp_path)


@pytest.mark.slow
def test_transformers_js_translates_alike(folder: Path, tmp_path: Path):
    """TRANSFORMERS_JS names a folder where `npm install @huggingface/transformers` ran."""
    packages, node = os.environ.get("TRANSFORMERS_JS"), shutil.which("node")
    if packages is None or node is None:
        pytest.skip("TRANSFORMERS_JS does not name a folder with @huggingface/transformers")
    norm = "pre" if json.loads((folder / "config.json").read_text())["normalize_before"] else "post"
    bundle = bundle_of(replace(CONFIG, norm=norm), one_vocabulary())
    sample = [*samples(bundle, SENTENCES[:3])]  # the last has the name of a control piece
    package = Path(packages) / "node_modules" / "@huggingface" / "transformers"
    main = package / "dist" / "transformers.node.mjs"
    script = tmp_path / "run.mjs"
    script.write_text(SCRIPT.replace("PACKAGE", main.resolve().as_uri()))
    job = json.dumps([[item.text, item.limit] for item in sample])

    done = subprocess.run(
        [node, script, folder.parent, job], capture_output=True, text=True, check=True
    )

    pad = bundle.tokenizer.pad
    expected = [[[*item.source], [pad, *item.target]] for item in sample]
    assert json.loads(done.stdout) == expected
