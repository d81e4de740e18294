"""Trained model + text -> translations."""
