"""CPU kernels that stand in for readable reference code."""
