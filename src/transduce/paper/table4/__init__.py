"""Table 4: constituency parsing."""
