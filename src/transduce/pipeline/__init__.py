"""A recipe run from corpus to evaluated bundle."""
