"""Source code: Java methods and their semantic flow graphs."""
