"""Files and the machine: atomic folders, locks, streams, versions."""
