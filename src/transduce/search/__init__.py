"""Search: from next-token logits to ranked hypotheses. Knows ids and logits, no model, no text."""
