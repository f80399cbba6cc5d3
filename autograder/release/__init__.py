"""What students are handed: one chapter in a folder of its own, and the proof that no answer and no check is in it."""
