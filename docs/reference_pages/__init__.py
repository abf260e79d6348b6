"""Makes the pages of the manual's reference that are derived from the code: options, commands and the HTTP API."""
