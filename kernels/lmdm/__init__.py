"""The operations of one LMDM layer and of one denoising step."""
