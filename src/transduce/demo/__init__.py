"""The embedded default: a small English→German grammar that writes its own parallel corpus."""
