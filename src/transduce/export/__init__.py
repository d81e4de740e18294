"""Bundles as other programs read them, each with a proof; and models of theirs as bundles."""
