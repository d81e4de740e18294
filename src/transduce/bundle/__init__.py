"""A model folder: read, written, averaged."""
