"""The box that untrusted code runs in."""
