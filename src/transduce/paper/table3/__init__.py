"""Table 3: variations of the model."""
