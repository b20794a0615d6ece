"""Every published number, each measured beside its baseline in the same run."""
