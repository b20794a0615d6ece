"""The networks and the mesh renderer of the family `mini`."""
