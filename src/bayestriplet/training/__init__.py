"""Training with Lightning: the module, what happens around its steps, and a whole run."""
