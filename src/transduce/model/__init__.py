"""The Transformer of the paper: ids in, logits out. Torch only; no text, no files, no processes."""
