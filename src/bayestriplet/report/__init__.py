"""What people look at: tables and figures, made from numbers that were computed elsewhere."""
