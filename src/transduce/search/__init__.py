"""From a step to hypotheses: search knows ids and logits, no model and no text."""
