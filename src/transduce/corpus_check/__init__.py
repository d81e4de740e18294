"""Quality checks of a parallel corpus before training."""
