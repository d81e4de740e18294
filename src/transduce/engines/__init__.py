"""What runs a bundle: encoded sentences in, hypotheses out. One file an engine."""
