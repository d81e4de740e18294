"""Sentences in, translations out: the translator, and what people ask of one."""
