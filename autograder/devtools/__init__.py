"""An invented class, benchmarks, the corpus of attacks."""
