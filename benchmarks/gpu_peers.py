"""Peers of `gpu.py`, with every setting that makes them fast."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, Shape

from transduce.data.batch import Batch

Update = Callable[[Batch], object]


def tuned(model: nn.Module, *, marian: bool, device: torch.device, compiled: bool) -> Update:
    """A peer's update: Adam in one kernel; on a GPU autocast to bf16; compiled if it is to be."""
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    half = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
    if compiled:
        model.compile(dynamic=True)

    def loss(batch: Batch) -> Tensor:
        if marian:
            seen = None if batch.source_mask is None else batch.source_mask[:, 0, 0].long()
            logits = model(
                input_ids=batch.source, attention_mask=seen, decoder_input_ids=batch.target_in
            ).logits
        else:
            with device:  # it makes its causal mask where torch makes tensors by default
                logits = model(batch.source, batch.target_in)
        pad = logits.size(-1) - 1
        rows, right = logits.flatten(0, 1), batch.target_out.flatten()
        return F.cross_entropy(rows, right, ignore_index=pad, label_smoothing=SMOOTHING)

    def update(batch: Batch) -> None:
        adam.zero_grad(set_to_none=True)
        with half:
            found = loss(batch)
        found.backward()
        adam.step()

    return update


def marian_of(shape: Shape, vocabulary: int) -> nn.Module:
    """Hugging Face's, as near to the shape as it comes."""
    from transformers import MarianConfig, MarianMTModel

    parts = {"layers": shape.layers, "ffn_dim": shape.d_ff, "attention_heads": shape.heads}
    sides = {f"{side}_{what}": n for what, n in parts.items() for side in ("encoder", "decoder")}
    config = MarianConfig(
        **sides,
        d_model=shape.d_model,
        vocab_size=vocabulary,
        activation_function="relu",
        dropout=DROPOUT,
        scale_embedding=True,
        pad_token_id=vocabulary - 1,
        eos_token_id=0,
        decoder_start_token_id=vocabulary - 1,
        use_cache=False,
    )
    return MarianMTModel(config)
