"""OpenNMT-py, by its command line `onmt_train`.

Workers prefetch few batches, so that they are idle while updates are timed. Layers are pre-norm;
OpenNMT-py has no post-norm.
"""

from pathlib import Path

import toolkit
from shapes import BETAS, DROPOUT, RATE, SMOOTHING, TOKENS, Shape


def settings(shape: Shape, folder: Path, updates: int) -> toolkit.Settings:
    """Return the settings of the shape."""
    return {
        "src_vocab": f"{folder}/vocabulary",
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "data": {
            "corpus": {
                "path_src": f"{folder}/train.source",
                "path_tgt": f"{folder}/train.target",
                "weight": 1,
                "transforms": [],
            }
        },
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "layers": shape.layers,
        "hidden_size": shape.d_model,
        "word_vec_size": shape.d_model,
        "transformer_ff": shape.d_ff,
        "heads": shape.heads,
        "position_encoding": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "add_ffnbias": True,
        "save_model": "model",
        "batch_type": "tokens",
        "batch_size": TOKENS,
        "normalization": "tokens",
        "bucket_size": 30_000,
        "num_workers": 1,
        "prefetch_factor": 4,
        "train_steps": updates,
        "save_checkpoint_steps": 1_000_000,
        "valid_steps": 1_000_000,
        "model_dtype": "fp32",
        "optim": "adam",
        "adam_beta1": BETAS[0],
        "adam_beta2": BETAS[1],
        "learning_rate": RATE,
        "max_grad_norm": 0,
        "param_init": 0,
        "param_init_glorot": True,
        "dropout": [DROPOUT],
        "attention_dropout": [0.0],
        "label_smoothing": SMOOTHING,
    }


if __name__ == "__main__":
    toolkit.run("onmt_train", "-config", package="OpenNMT-py", settings=settings)
