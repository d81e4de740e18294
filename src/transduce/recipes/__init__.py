"""Recipes shipped with the package, as TOML and as rows of Table 3."""
