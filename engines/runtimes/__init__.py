"""Ways to run a network: eager torch, CUDA graphs, and the choice between them."""
