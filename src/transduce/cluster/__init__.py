"""Work on a large corpus by workers on several machines, in shards, restartable."""
