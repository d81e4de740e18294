"""Translation memory: stored translations, looked up exactly or by similarity."""
