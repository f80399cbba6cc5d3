"""Marks on their way back: into the files that Canvas and Moodle import, and into a plain table."""
