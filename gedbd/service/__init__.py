"""Serves an index over HTTP: an API, a page for triagers, and a webhook for GitHub."""
