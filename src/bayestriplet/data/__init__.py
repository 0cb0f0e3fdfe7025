"""Labelled images: where they come from, how they are checked, decoded, split and put into batches."""
