"""A small English-German grammar that generates the demo's corpus."""
