"""Batches in, weights out: the schedule, the optimizers, one update, the state, and the loop."""
