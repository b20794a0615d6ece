"""All that belongs to a key or a presenter: removed at once, with a report."""
