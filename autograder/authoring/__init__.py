"""What authors of chapters use: build, run, verify."""
