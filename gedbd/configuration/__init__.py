"""From a command line to a checked configuration, and from a mistake of the user to one line."""
