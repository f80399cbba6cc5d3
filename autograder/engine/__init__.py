"""A whole class, on this machine or on many."""
