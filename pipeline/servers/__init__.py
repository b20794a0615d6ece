"""Servers that the operator names in the settings: where they are, how they are asked, and what their failures mean."""
