"""A term's rules over the marks of its chapters: applied on top when totals are made, and explained line by line."""
