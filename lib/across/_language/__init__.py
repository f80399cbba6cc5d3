"""Machinery: another language for what the course says, looked up where it is shown and never where anything is decided."""
