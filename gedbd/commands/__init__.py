"""The commands: each module is one, and says in its first line what it does."""
