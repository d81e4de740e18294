"""Documents split into translatable segments and rebuilt from their translations."""
