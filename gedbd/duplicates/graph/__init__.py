"""The graph over all reports: its edges from the titles, and the graph convolution."""
