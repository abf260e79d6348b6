"""When a pair of duplicates will be confirmed: a regression of the time from question to link."""
