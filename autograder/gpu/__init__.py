"""Graphics cards lent to jobs."""
