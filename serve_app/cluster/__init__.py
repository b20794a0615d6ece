"""The Ray cluster that commands run on."""
