"""Decoding backends: encoded sentences -> hypotheses."""
