"""Figures and claims of the paper as programs."""
