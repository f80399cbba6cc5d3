"""What students handed in: from files of any kind to answers."""
