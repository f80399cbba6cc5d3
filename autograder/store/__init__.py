"""Files that are written whole, by one writer at a time."""
