"""Figure 1 drawn from a live model."""
