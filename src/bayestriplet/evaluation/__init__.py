"""Measures of an embedding."""
