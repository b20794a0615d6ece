"""The stages as Ray Serve deployments, and what calls between them need: batching, placement, routing, scaling, errors."""
