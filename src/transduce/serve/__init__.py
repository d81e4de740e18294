"""HTTP server: the APIs of LibreTranslate and DeepL, a native API, and a web page."""
