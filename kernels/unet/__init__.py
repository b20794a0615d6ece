"""What a diffusion UNet does between its products, on maps whose channels lie together."""
