"""Self-contained HTML and SVG for attention and charts."""
