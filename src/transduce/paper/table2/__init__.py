"""Table 2: WMT14 runs, cost and BLEU."""
