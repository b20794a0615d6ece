"""Hours of mixed work with faults at random: what grows that should not."""
