"""Asking a student's kernel: what check files are written with, and the typed protocol that answers cross."""
