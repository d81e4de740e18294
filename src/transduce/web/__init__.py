"""Translation in a browser: the engine in JavaScript, and the page of `export --to web`."""
