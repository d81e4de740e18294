"""A corpus looked over before anything is learned from it."""
