"""Serves an index over HTTP: an API, one page, and a webhook for GitHub."""
