"""Break the line that implements a claim, and see that a test notices: `make mutations`.

Each mutation is made in a copy of src/ in a temporary folder, never in the tree. A mutation that no
test notices is named, and the program fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutation(NamedTuple):
    """One line, what it becomes, and the test that must turn red."""

    claim: str
    file: str
    old: str
    new: str
    test: str


ATTENTION, ARCHITECTURE = "tests/paper/test_attention.py", "tests/paper/test_architecture.py"
CLAIMS, TRAINING = "tests/paper/test_claims.py", "tests/paper/test_training.py"
ROOM = "tests/unit/paper/figures"

MUTATIONS = (
    Mutation(
        "1 the softmax", "model/kernels.py", "drop(softmax(scores), dropout) @ values",
        "scores @ values",
        f"{CLAIMS}::test_attention_takes_a_mean_of_the_values_and_leaves_their_range_never",
    ),
    Mutation(
        "1 row by row", "model/attention.py", "return scores.softmax(-1)",
        "return scores.softmax(-2)",
        f"{CLAIMS}::test_the_softmax_is_taken_over_the_keys_of_each_query",
    ),
    Mutation(
        "1 equation (1)", "model/attention.py", "attention_weights(queries, keys, mask) @ values",
        "attention_weights(queries, keys, mask).softmax(-1) @ values",
        f"{ATTENTION}::test_equation_1_is_the_softmax_of_scaled_products_times_the_values",
    ),
    Mutation(
        "2 the scaling", "model/kernels.py",
        "(queries.contiguous() * keys.size(-1) ** -0.5) @", "queries @",
        f"{CLAIMS}::test_the_models_own_products_have_variance_1_whatever_d_k",
    ),
    Mutation(
        "3 heads side by side", "model/attention.py", "heads.transpose(1, 2).flatten(2)",
        "heads.flatten(1).view(*x.shape[:2], -1)",
        f"{ATTENTION}::test_heads_attend_apart_and_stand_side_by_side_before_the_output",
    ),
    Mutation(
        "3 d_k is divided, not multiplied", "model/attention.py",
        "self.query = nn.Linear(d_model, heads * d_k, bias=bias)",
        "self.query = nn.Linear(d_model, heads * heads * d_k, bias=bias)",
        f"{CLAIMS}::test_heads_divide_the_width_and_do_not_multiply_it",
    ),
    Mutation(
        "3 cost of one head",
        "paper/figures/lookups.py",
        "d_k=d_model // heads, d_v=d_model // heads",
        "d_k=d_model, d_v=d_model",
        f"{CLAIMS}::test_eight_heads_cost_what_one_of_full_width_costs",
    ),
    Mutation(
        "4 all positions are seen", "model/layers.py", "self.self_attention(y, mask=mask)",
        "self.self_attention(y, causal=True)",
        f"{ATTENTION}::test_every_position_of_the_encoder_sees_all_positions",
    ),
    Mutation(
        "4 six layers", "model/config.py", "encoder_layers: int = 6", "encoder_layers: int = 5",
        f"{ARCHITECTURE}::test_the_stacks_have_six_layers_of_width_512",
    ),
    Mutation(
        "5 the causal mask", "model/layers.py", "self.self_attention(y, causal=True)",
        "self.self_attention(y, causal=False)",
        f"{ATTENTION}::test_a_position_of_the_decoder_sees_itself_and_what_came_before",
    ),
    Mutation(
        "5 scores before the softmax", "model/kernels.py",
        "scores += ahead.triu_(1)",
        "return scores.softmax(-1).tril() @ values",
        f"{ATTENTION}::test_the_mask_is_laid_on_scores_before_the_softmax",
    ),
    Mutation(
        "5 scores, and not keys", "model/kernels.py",
        "scores += allowed.masked_fill_(~mask, -math.inf)\n    return",
        "scores = queries @ keys.masked_fill(~mask.mT, -math.inf).mT\n    return",
        f"{CLAIMS}::test_what_is_masked_is_as_if_it_were_not_there",
    ),
    Mutation(
        "5 keys and values of the encoder's output", "model/fused_decoder.py",
        "layer.cross_attention.project_kv(memory), beams=beams)",
        "layer.cross_attention.project_kv(model.embed(source)), beams=beams)",
        f"{ATTENTION}::test_the_decoders_queries_meet_keys_and_values_of_the_encoders_output",
    ),
    Mutation(
        "5 self-attention reads the decoder itself", "model/layers.py",
        "self.self_attention(y, causal=True)",
        "self.self_attention(y, memory, causal=True)",
        f"{CLAIMS}::test_the_decoders_self_attention_never_meets_the_encoders_output",
    ),
    Mutation(
        "5 shifted right", "data/batch.py",
        "target_in[:, 1:] = _padded(targets, lengths=lengths, pad=pad, end=pad)[:, :-1]",
        "target_in = _padded(targets, lengths=lengths, pad=pad, end=pad)",
        f"{ARCHITECTURE}"
        "::test_the_decoder_starts_from_a_zero_vector_and_reads_the_target_shifted_right",
    ),
    Mutation(
        "6 equation (2)", "model/layers.py", "hidden = self.activation(self.inner(x))",
        "hidden = self.inner(x)",
        f"{ARCHITECTURE}::test_equation_2_is_two_linear_maps_with_biases_and_a_relu_between",
    ),
    Mutation(
        "6 another one in every layer", "model/transformer.py", "        initialise(self)\n",
        "        initialise(self)\n        for layer in (*self.encoder, *self.decoder):\n"
        "            layer.feed_forward = self.encoder[0].feed_forward\n",
        f"{CLAIMS}::test_no_two_feed_forward_layers_share_a_matrix",
    ),
    Mutation(
        "7 the residual connection", "model/layers.py", "self.norm(x + self.dropout(sublayer(x)))",
        "self.norm(self.dropout(sublayer(x)))",
        f"{ARCHITECTURE}::test_a_sub_layer_is_layer_norm_of_x_plus_sublayer_of_x",
    ),
    Mutation(
        "7 the normalisation", "model/layers.py", "self.norm(x + self.dropout(sublayer(x)))",
        "x + self.dropout(sublayer(x))",
        f"{ARCHITECTURE}::test_a_sub_layer_is_layer_norm_of_x_plus_sublayer_of_x",
    ),
    Mutation(
        "8 the angles", "model/numpy_transformer.py", "(-math.log(10_000.0) / d_model)",
        "(-math.log(10.0) * 5 / d_model)",
        f"{CLAIMS}::test_the_encodings_angles_are_powers_of_10_to_the_8_not_to_the_10",
    ),
    Mutation(
        "8 sine and cosine", "model/numpy_transformer.py",
        "[np.sin(angles), np.cos(angles)], axis=-1", "[np.cos(angles), np.sin(angles)], axis=-1",
        f"{ARCHITECTURE}::test_sines_and_cosines_are_interleaved",
    ),
    Mutation(
        "8 added", "model/layers.py", "return x + self.rows(end)[first:]", "return x",
        f"{ARCHITECTURE}::test_without_positions_the_encoder_would_not_know_the_order",
    ),
    Mutation(
        "8 times √d_model", "model/transformer.py",
        "scaled * math.sqrt(self.config.d_model)", "scaled",
        f"{ARCHITECTURE}::test_embeddings_are_multiplied_by_the_root_of_the_width",
    ),
    Mutation(
        "8 without it equivariant",
        "paper/figures/positions.py",
        "without.positions.table.zero_()",
        "pass",
        f"{ROOM}/test_order.py::test_an_encoder_without_positions_is_equivariant",
    ),
    Mutation(
        "9 the noun that is meant",
        "paper/figures/coreference.py",
        "leans[:, 1] < 0", "leans[:, 1] > 0",
        f"{ROOM}/test_resolve.py::test_a_head_that_looks_at_the_noun_that_is_meant_is_found",
    ),
    Mutation(
        "10 n²d", "model/kernels.py", "scores = (queries.cont",
        "scores = (queries * keys.size(-1) ** -0.5) @ keys.mT\n"
        "    scores = (queries.cont",
        f"{CLAIMS}::test_eight_heads_cost_what_one_of_full_width_costs",
    ),
    Mutation(
        "equation (3)", "train/optimizer.py", "update * warmup**-1.5)", "update * warmup**-1.4)",
        f"{TRAINING}::test_equation_3_gives_the_rate",
    ),
)  # fmt: skip


def notices(mutation: Mutation) -> bool:
    """Whether the test fails on the mutated copy; it must run, and the line must be there once."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True)
        file = Path(folder) / "transduce" / mutation.file
        text = file.read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, f"{mutation.claim}: its line is not there once"
        file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        check = f"import transduce; assert transduce.__file__.startswith({folder!r})"
        env = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-c", check], check=True, env=env, cwd=ROOT)
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", mutation.test],
            cwd=ROOT,
            env=env,
            capture_output=True,
            check=False,
        )
    return result.returncode == 1  # tests ran, and some failed


def main(wanted: list[str]) -> int:
    """Try all mutations, or those whose claim begins with one of these words."""
    some = [item for item in MUTATIONS if not wanted or item.claim.startswith(tuple(wanted))]
    missed = 0
    for mutation in some:
        red = notices(mutation)
        missed += not red
        verdict = "red" if red else "NOT NOTICED"
        print(f"{verdict:<12} {mutation.claim}: {mutation.test}", flush=True)
    print(f"{len(some) - missed} of {len(some)} mutations are noticed")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
