"""An invented class."""
