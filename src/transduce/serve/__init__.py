"""A server: what existing clients of translation already speak, and a page that looks inside."""
