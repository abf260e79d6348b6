"""Read the data dumps of Stack Exchange: questions, the duplicate links between them, and their answers."""
