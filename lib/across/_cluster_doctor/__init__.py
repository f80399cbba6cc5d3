"""`across doctor --cluster`: why does the job hang? Facts from outside of its processes, rules over them, a report."""
