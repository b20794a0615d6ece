"""The networks and the chain of Ditto."""
