"""The Python API that ``import gedbd`` offers: typed functions over the code that the commands call."""
