"""An invented class, benchmarks."""
