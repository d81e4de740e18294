"""eole, by its command line `eole train`.

Logging of the attention entropy is off, and workers prefetch few batches, so that they are idle
while updates are timed. Layers are pre-norm; eole has no post-norm.
"""

from pathlib import Path

import toolkit
from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, TOKENS, Shape


def settings(shape: Shape, folder: Path, updates: int) -> toolkit.Settings:
    """Return the settings of the shape."""
    return {
        "src_vocab": f"{folder}/vocabulary",
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "data": {
            "corpus": {"path_src": f"{folder}/train.source", "path_tgt": f"{folder}/train.target"}
        },
        "transforms": [],
        "model": {
            "architecture": "transformer",
            "layers": shape.layers,
            "hidden_size": shape.d_model,
            "word_vec_size": shape.d_model,
            "transformer_ff": shape.d_ff,
            "heads": shape.heads,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "generator_bias": False,
            "add_ffnbias": True,
            "embeddings": {"position_encoding": True},
        },
        "training": {
            "model_path": "model",
            "batch_type": "tokens",
            "batch_size": TOKENS,
            "normalization": "tokens",
            "bucket_size": 30_000,
            "num_workers": 1,
            "prefetch_factor": 4,
            "train_steps": updates,
            "save_checkpoint_steps": 1_000_000,
            "valid_steps": 1_000_000,
            "compute_dtype": "fp32",
            "optim": "adam",
            "adam_beta1": BETAS[0],
            "adam_beta2": BETAS[1],
            "adam_eps": EPSILON,
            "learning_rate": RATE,
            "max_grad_norm": 0,
            "param_init_method": "xavier_uniform",
            "dropout": [DROPOUT],
            "attention_dropout": [0.0],
            "label_smoothing": SMOOTHING,
            "log_attention_entropy": False,
        },
    }


if __name__ == "__main__":
    toolkit.run("eole", "train", "-config", package="eole", settings=settings)
