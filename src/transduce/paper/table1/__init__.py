"""Table 1: layer types compared."""
