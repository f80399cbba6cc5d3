"""One job: a submission executed, asked and judged."""
