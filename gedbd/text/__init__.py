"""From a report to tokens: templates, cleaning of descriptions, tokenization."""
