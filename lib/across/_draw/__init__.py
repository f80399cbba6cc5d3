"""Machinery: reading what TensorFlow did, and drawing it."""
