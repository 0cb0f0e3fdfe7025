"""Faults of every kind, on purpose: each part returns figures. ``make chaos`` runs all of it."""
