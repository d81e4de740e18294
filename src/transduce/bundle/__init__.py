"""Model folders: reading, writing, averaging."""
