"""Self-contained HTML and SVG: the attention view, charts and report pages."""
