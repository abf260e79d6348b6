"""Tables and figures of the graph-enhanced transformer's paper, reproduced next to the published numbers."""
