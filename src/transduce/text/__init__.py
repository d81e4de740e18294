"""Strings become pieces: parallel text read and cleaned, and the one vocabulary of both sides."""
