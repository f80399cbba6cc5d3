"""Values and what they mean: the course, a verdict, text made harmless. Nothing here runs or writes anything."""
