"""A run's index as a service on the network, and its search page."""
