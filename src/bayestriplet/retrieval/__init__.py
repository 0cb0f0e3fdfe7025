"""Asking a trained run: what needs no torch."""
