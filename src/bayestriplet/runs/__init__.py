"""A run on disk: every file of its folder, with readers and writers together. NumPy alone."""
