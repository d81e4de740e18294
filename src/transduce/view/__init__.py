"""Pages for eyes: whole HTML files that need no network, light and dark, wide screen and phone."""
