"""Fetching the issues of a tracker through its REST API, as pages of JSON that the readers read."""
