"""HuBERT-large as a torch module, for a GPU where onnxruntime has the CPU only (ditto.md section 6).

Names follow the public model's (facebook/hubert-large-ls960-ft): seven convolutions without padding, a grouped convolution as
position code, pre-norm transformer layers. Keys and values of a fixed context may stand before a window's own, as the streaming
file bakes them in. Dropout, masking and the head for letters are left out.
"""

from __future__ import annotations

from typing import Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.errors import ShapeError

KERNELS: Final = (10, 3, 3, 3, 3, 2, 2)
STRIDES: Final = (5, 2, 2, 2, 2, 2, 2)
"""320 samples per row; a window of 6480 gives exactly 20."""


class ConvLayer(nn.Module):
    """Convolution, LayerNorm over channels, GELU."""

    def __init__(self, given: int, made: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(given, made, kernel, stride)
        self.layer_norm = nn.LayerNorm(made)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, n) -> (B, made, (n - kernel) / stride + 1)."""
        normed = self.layer_norm(self.conv(x).transpose(1, 2)).transpose(1, 2)
        return F.gelu(normed)


class FeatureExtractor(nn.Module):
    """Samples to rows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        given = (1, *[width] * (len(KERNELS) - 1))
        layers = [ConvLayer(g, width, k, s) for g, k, s in zip(given, KERNELS, STRIDES, strict=True)]
        self.conv_layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """(B, samples) -> (B, rows, width)."""
        x = x[:, None]
        for layer in self.conv_layers:
            x = layer(x)
        return x.transpose(1, 2)


class FeatureProjection(nn.Module):
    """Rows to the model's width."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(given)
        self.projection = nn.Linear(given, made)

    def forward(self, x: Tensor) -> Tensor:
        """Norm and project."""
        return cast(Tensor, self.projection(self.layer_norm(x)))


class PositionCode(nn.Module):
    """A wide grouped convolution, GELU; one row is cut where the kernel is even."""

    def __init__(self, width: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """(B, rows, width), what is added to the rows."""
        code = self.conv(x.transpose(1, 2))[..., : x.shape[1]]
        return F.gelu(code).transpose(1, 2)


class SelfAttention(nn.Module):
    """Attention to the window's own rows and to a fixed context before them.

    Attributes:
        context_keys: (heads, n, width / heads); n may be 0.
        context_values: Likewise.
    """

    context_keys: Tensor
    context_values: Tensor

    def __init__(self, width: int, heads: int, context: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        for name in ("context_keys", "context_values"):
            self.register_buffer(name, torch.randn(heads, context, width // heads))

    def _split(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, -1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, rows, width), same shape."""
        batch, rows = x.shape[:2]
        q, k, v = self._split(self.q_proj(x)), self._split(self.k_proj(x)), self._split(self.v_proj(x))
        before = self.context_keys.shape[1]
        if before:
            k = torch.cat([self.context_keys.expand(batch, -1, -1, -1), k], dim=2)
            v = torch.cat([self.context_values.expand(batch, -1, -1, -1), v], dim=2)
        mask = None
        if self.causal:
            mask = torch.ones(rows, before + rows, dtype=torch.bool, device=x.device).tril(before)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return cast(Tensor, self.out_proj(mixed.transpose(1, 2).flatten(2)))


class FeedForward(nn.Module):
    """Two linear layers with GELU between."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(width, inner)
        self.output_dense = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return cast(Tensor, self.output_dense(F.gelu(self.intermediate_dense(x))))


class Layer(nn.Module):
    """Pre-norm transformer layer."""

    def __init__(self, width: int, heads: int, inner: int, context: int, causal: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, context, causal)
        self.layer_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, inner)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        x = x + self.attention(self.layer_norm(x))
        return cast(Tensor, x + self.feed_forward(self.final_layer_norm(x)))


class Encoder(nn.Module):
    """Position code, layers, a last norm."""

    def __init__(
        self, width: int, layers: int, heads: int, inner: int, context: int, causal: bool, kernel: int, groups: int
    ) -> None:
        super().__init__()
        self.pos_conv_embed = PositionCode(width, kernel, groups)
        self.layers = nn.ModuleList([Layer(width, heads, inner, context, causal) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        x = x + self.pos_conv_embed(x)
        for layer in self.layers:
            x = layer(x)
        return cast(Tensor, self.layer_norm(x))


class HubertEncoder(nn.Module):
    """The whole encoder; the defaults are HuBERT-large's.

    Args:
        width: Model width, and that of the rows.
        layers: Transformer layers.
        heads: Attention heads.
        feed_forward: Inner width of the feed-forward layers.
        conv_width: Channels of the convolutions.
        context: Rows of fixed context in every attention.
        causal: A row sees itself, those before it and the context only.
        position_kernel: Rows that the position code looks at.
        position_groups: Its groups.
    """

    def __init__(
        self,
        *,
        width: int = 1024,
        layers: int = 24,
        heads: int = 16,
        feed_forward: int = 4096,
        conv_width: int = 512,
        context: int = 0,
        causal: bool = False,
        position_kernel: int = 128,
        position_groups: int = 16,
    ) -> None:
        super().__init__()
        self.feature_extractor = FeatureExtractor(conv_width)
        self.feature_projection = FeatureProjection(conv_width, width)
        self.encoder = Encoder(width, layers, heads, feed_forward, context, causal, position_kernel, position_groups)

    def forward(self, samples: Tensor) -> Tensor:
        """Encode.

        Args:
            samples: (B, n) at 16 kHz, n >= 400, in the weights' type; not normalised.

        Returns:
            (B, (n - 80) // 320, width) at 50 Hz.

        Raises:
            ShapeError: Not (B, n).
        """
        if samples.dim() != 2:
            raise ShapeError("samples", str(tuple(samples.shape)), "(B, n)")
        return cast(Tensor, self.encoder(self.feature_projection(self.feature_extractor(samples))))

    def set_causal(self, causal: bool) -> None:
        """Switch the mask of every layer."""
        for layer in self.encoder.layers:
            cast(Layer, layer).attention.causal = causal
