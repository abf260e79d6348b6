"""From a tracker's file to batches of reports: corpus, text, splits, pairs, tokens."""
