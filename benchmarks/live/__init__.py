"""Live sessions as a viewer sees them."""
