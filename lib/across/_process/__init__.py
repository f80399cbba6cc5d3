"""Machinery: warm processes."""
