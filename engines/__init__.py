"""Networks, weights and the runtimes that execute them."""
