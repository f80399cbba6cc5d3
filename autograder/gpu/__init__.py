"""Graphics cards lent to jobs, whole."""
