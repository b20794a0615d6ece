"""LMDM, the latent motion diffusion model: audio condition -> motion window, by denoising.

The class of Ditto's LMDM (`ditto.md` section 2.6); state-dict names and shapes equal the public checkpoint's for
`build("ditto/lmdm")`. `build("mini/lmdm")` is the same class, configured small.

What does not depend on the noisy motion is done once per window by `encode_condition` (condition encoder, keys and values of
the cross attention for the condition *and* for the time tokens of every step, FiLM factors of every layer and step, the
condition frame's share of the input projection); `denoise` does the rest. `forward` is the same function in one call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.attention import Attention, Rotary
from kernels.errors import ShapeError

TIME_TOKENS = 2


@dataclass(frozen=True)
class ConditionCache:
    """Everything about one window's condition that is constant over the sampling loop.

    Batch axis `g` = sessions times guidance branches, conditional branches first.

    Attributes:
        frame_bias: (g, 1, latent), input projection of the condition frame, bias included.
        film: (steps, layers, 3, 2, g, 1, latent): scale + 1 and shift.
        keys: (steps, layers, g, heads, length + 2, latent / heads).
        values: Same shape as `keys`.
        batch: Number of sessions.
    """

    frame_bias: Tensor
    film: Tensor
    keys: Tensor
    values: Tensor
    batch: int


class SinusoidalTime(nn.Module):
    """Timesteps (n,) -> (n, width): [sin, cos] of t * 10000^(-i / (width / 2 - 1))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, t: Tensor) -> Tensor:
        """Encode integer or float timesteps."""
        half = self.width // 2
        index = torch.arange(half, dtype=torch.float32, device=t.device)
        angles = t.float()[:, None] * torch.exp(index * (-math.log(10_000.0) / (half - 1)))
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class FilmProjection(nn.Module):
    """Time vector (..., latent) -> [scale, shift] (..., 2 * latent)."""

    def __init__(self, latent: int) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Mish(), nn.Linear(latent, 2 * latent))

    def forward(self, t: Tensor) -> Tensor:
        """Project."""
        out: Tensor = self.block(t)
        return out


class EncoderLayer(nn.Module):
    """Pre-norm transformer layer of the condition encoder."""

    def __init__(self, latent: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.self_attn = Attention(latent, heads)
        self.linear1 = nn.Linear(latent, feed_forward)
        self.linear2 = nn.Linear(feed_forward, latent)
        self.norm1 = nn.LayerNorm(latent)
        self.norm2 = nn.LayerNorm(latent)
        self.rotary = Rotary(latent)

    def forward(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """Transform x (..., length, latent); same shape."""
        normed = self.norm1(x)
        x = x + self.self_attn.self_attend(self.rotary.rotate(normed, tables), normed)
        out: Tensor = x + self.linear2(F.gelu(self.linear1(self.norm2(x))))
        return out


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward; each modulated by the time vector (FiLM)."""

    def __init__(self, latent: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.self_attn = Attention(latent, heads)
        self.multihead_attn = Attention(latent, heads)
        self.linear1 = nn.Linear(latent, feed_forward)
        self.linear2 = nn.Linear(feed_forward, latent)
        self.norm1 = nn.LayerNorm(latent)
        self.norm2 = nn.LayerNorm(latent)
        self.norm3 = nn.LayerNorm(latent)
        self.film1 = FilmProjection(latent)
        self.film2 = FilmProjection(latent)
        self.film3 = FilmProjection(latent)
        self.rotary = Rotary(latent)

    def forward(self, x: Tensor, film: Tensor, keys: Tensor, values: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """Transform x (g, length, latent); film (3, 2, g, 1, latent); keys, values (g, heads, memory, latent / heads)."""
        normed = self.norm1(x)
        y = self.self_attn.self_attend(self.rotary.rotate(normed, tables), normed)
        x = torch.addcmul(x + film[0, 1], film[0, 0], y)
        y = self.multihead_attn.attend(self.rotary.rotate(self.norm2(x), tables), keys, values)
        x = torch.addcmul(x + film[1, 1], film[1, 0], y)
        y = self.linear2(F.gelu(self.linear1(self.norm3(x))))
        return torch.addcmul(x + film[2, 1], film[2, 0], y)


class DecoderStack(nn.Module):
    """Holder that gives the layers the checkpoint's name `seqTransDecoder.stack`."""

    def __init__(self, layers: list[DecoderLayer]) -> None:
        super().__init__()
        self.stack = nn.ModuleList(layers)

    def layers(self) -> Iterator[DecoderLayer]:
        """The layers in order."""
        return (cast(DecoderLayer, layer) for layer in self.stack)


class Lmdm(nn.Module):
    """Latent motion diffusion model.

    Args:
        motion_dim: Width of a motion vector.
        cond_dim: Width of a condition row (one per frame).
        seq_frames: Window length in frames; fixed by `null_cond_embed`.
        latent: Model width.
        heads: Attention heads.
        feed_forward: Width of the feed-forward layers.
        layers: Decoder layers.
        cond_layers: Layers of the condition encoder.
        guidance_weight: w in `unc + w * (cond - unc)`; at 1 the unconditional branch is not computed.
    """

    def __init__(
        self,
        *,
        motion_dim: int = 265,
        cond_dim: int = 1103,
        seq_frames: int = 80,
        latent: int = 512,
        heads: int = 8,
        feed_forward: int = 1024,
        layers: int = 8,
        cond_layers: int = 2,
        guidance_weight: float = 2.0,
    ) -> None:
        super().__init__()
        self.motion_dim = motion_dim
        self.cond_dim = cond_dim
        self.seq_frames = seq_frames
        self.latent = latent
        self.heads = heads
        self.guidance_weight = float(guidance_weight)
        self.null_cond_embed = nn.Parameter(torch.randn(1, seq_frames, latent))
        self.null_cond_hidden = nn.Parameter(torch.randn(1, latent))
        self.rotary = Rotary(latent)
        self.time_mlp = nn.Sequential(SinusoidalTime(latent), nn.Linear(latent, 4 * latent), nn.Mish())
        self.to_time_cond = nn.Sequential(nn.Linear(4 * latent, latent))
        self.to_time_tokens = nn.Sequential(nn.Linear(4 * latent, TIME_TOKENS * latent))
        self.norm_cond = nn.LayerNorm(latent)
        self.input_projection = nn.Linear(2 * motion_dim, latent)
        self.cond_encoder = nn.Sequential(*[EncoderLayer(latent, heads, feed_forward) for _ in range(cond_layers)])
        self.cond_projection = nn.Linear(cond_dim, latent)
        self.non_attn_cond_projection = nn.Sequential(
            nn.LayerNorm(latent), nn.Linear(latent, latent), nn.SiLU(), nn.Linear(latent, latent)
        )
        self.seqTransDecoder = DecoderStack([DecoderLayer(latent, heads, feed_forward) for _ in range(layers)])
        self.final_layer = nn.Linear(latent, motion_dim)

    def forward(self, x: Tensor, cond_frame: Tensor, cond: Tensor, t: Tensor) -> Tensor:
        """Predict the clean motion, guided.

        Args:
            x: (B, seq_frames, motion_dim), noisy motion.
            cond_frame: (B, motion_dim), motion of the frame before the window.
            cond: (B, seq_frames, cond_dim).
            t: (1,) or (B,) integer timesteps 0..999, equal over the batch.

        Returns:
            (B, seq_frames, motion_dim), the guided x0.
        """
        cache = self.encode_condition(cond_frame, cond, t[:1])
        return self.denoise(x, 0, cache)

    def encode_condition(
        self, cond_frame: Tensor, cond: Tensor, timesteps: Tensor, *, guided: bool | None = None
    ) -> ConditionCache:
        """Do all the work of a window that does not depend on the noisy motion.

        Args:
            cond_frame: (B, motion_dim).
            cond: (B, seq_frames, cond_dim).
            timesteps: (steps,), the timesteps that `denoise` will be called for, in order.
            guided: Compute the unconditional branch too; None: when `guidance_weight` is not 1.

        Returns:
            The cache for `denoise`.

        Raises:
            ShapeError: A tensor does not fit this network.
        """
        self._check("cond", cond, (self.seq_frames, self.cond_dim))
        self._check("cond_frame", cond_frame, (self.motion_dim,))
        batch = cond.shape[0]
        guided = self.guidance_weight != 1.0 if guided is None else guided
        memory, pooled = self._memory(cond)
        frame_bias = F.linear(
            cond_frame, self.input_projection.weight[:, self.motion_dim :], self.input_projection.bias
        )
        if guided:
            memory = torch.cat([memory, self.null_cond_embed.to(memory.dtype).expand_as(memory)])
            pooled = torch.cat([pooled, self.null_cond_hidden.to(pooled.dtype).expand_as(pooled)])
            frame_bias = torch.cat([frame_bias, frame_bias])
        return self._cache(memory, pooled, frame_bias, timesteps, batch)

    def encode_branches(self, cond_frame: Tensor, cond: Tensor, timesteps: Tensor, drop: Tensor) -> ConditionCache:
        """Training's variant: one timestep *per item* and the condition dropped where asked.

        Args:
            cond_frame: (B, motion_dim).
            cond: (B, seq_frames, cond_dim).
            timesteps: (B,).
            drop: bool (B,); True replaces that item's condition by the null embedding.

        Returns:
            A cache of one step whose factors differ from item to item.
        """
        memory, pooled = self._memory(cond)
        memory = torch.where(drop[:, None, None], self.null_cond_embed.to(memory.dtype), memory)
        pooled = torch.where(drop[:, None], self.null_cond_hidden.to(pooled.dtype), pooled)
        frame_bias = F.linear(
            cond_frame, self.input_projection.weight[:, self.motion_dim :], self.input_projection.bias
        )
        hidden = self.time_mlp(timesteps)
        tokens = torch.unflatten(self.to_time_tokens(hidden), -1, (TIME_TOKENS, self.latent))
        tvec = self.to_time_cond(hidden) + pooled
        return self._assemble(memory[None], tvec[None], tokens[None], frame_bias, cond.shape[0])

    def denoise(self, x: Tensor, step_index: int, cache: ConditionCache) -> Tensor:
        """Predict the clean motion at one step of the cache's timestep list.

        Args:
            x: (B, seq_frames, motion_dim), noisy motion.
            step_index: Index into the `timesteps` given to `encode_condition`.
            cache: Made by `encode_condition` for the same batch.

        Returns:
            (B, seq_frames, motion_dim), guided with `guidance_weight`.
        """
        raw = self.denoise_branches(x, step_index, cache)
        if raw.shape[0] == cache.batch:
            return raw
        conditional, unconditional = raw.chunk(2)
        return unconditional + self.guidance_weight * (conditional - unconditional)

    def denoise_branches(self, x: Tensor, step_index: int, cache: ConditionCache) -> Tensor:
        """Like `denoise`, without mixing: (B or 2 B, seq_frames, motion_dim), conditional branch first."""
        self._check("x", x, (self.seq_frames, self.motion_dim))
        h = F.linear(x, self.input_projection.weight[:, : self.motion_dim])
        if cache.frame_bias.shape[0] != h.shape[0]:
            h = torch.cat([h, h])
        h = h + cache.frame_bias
        tables = self.rotary.tables(self.seq_frames)
        for index, layer in enumerate(self.seqTransDecoder.layers()):
            h = layer(
                h,
                cache.film[step_index, index],
                cache.keys[step_index, index],
                cache.values[step_index, index],
                tables,
            )
        out: Tensor = self.final_layer(h)
        return out

    def _memory(self, cond: Tensor) -> tuple[Tensor, Tensor]:
        """Condition encoder: (B, T, cond_dim) -> tokens (B, T, latent) and their pooled projection (B, latent)."""
        c = self.cond_projection(cond)
        tables = self.rotary.tables(self.seq_frames)
        for layer in self.cond_encoder:
            c = layer(c, tables)
        return c, self.non_attn_cond_projection(c.mean(dim=-2))

    def _cache(
        self, memory: Tensor, pooled: Tensor, frame_bias: Tensor, timesteps: Tensor, batch: int
    ) -> ConditionCache:
        hidden = self.time_mlp(timesteps)
        tokens = torch.unflatten(self.to_time_tokens(hidden), -1, (TIME_TOKENS, self.latent))
        tvec = self.to_time_cond(hidden)[:, None] + pooled
        return self._assemble(memory[None], tvec, tokens[:, None], frame_bias, batch)

    def _assemble(self, memory: Tensor, tvec: Tensor, tokens: Tensor, frame_bias: Tensor, batch: int) -> ConditionCache:
        """FiLM factors, keys and values from memory (1, g, T, l), tvec (s, g, l), tokens (s, 1 or g, 2, l).

        LayerNorm and the projections act token by token, so the condition's share is computed once and the time
        tokens' share once per step.
        """
        steps, branches = tvec.shape[:2]
        length = self.seq_frames + TIME_TOKENS
        cos, sin = self.rotary.tables(length)
        memory = self.norm_cond(memory)
        tokens = self.norm_cond(tokens)
        rotated_memory = self.rotary.rotate(memory, (cos[: self.seq_frames], sin[: self.seq_frames]))
        rotated_tokens = self.rotary.rotate(tokens, (cos[self.seq_frames :], sin[self.seq_frames :]))
        films: list[Tensor] = []
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for layer in self.seqTransDecoder.layers():
            memory_kv = layer.multihead_attn.keys_values(rotated_memory, memory)
            token_kv = layer.multihead_attn.keys_values(rotated_tokens, tokens)
            for out, m, tok in zip((keys, values), memory_kv, token_kv, strict=True):
                shape = (steps, branches, self.heads, -1, self.latent // self.heads)
                out.append(torch.cat([m.expand(*shape), tok.expand(*shape)], dim=-2))
            films.append(torch.stack([film(tvec) for film in (layer.film1, layer.film2, layer.film3)], dim=1))
        film = torch.unflatten(torch.stack(films, dim=1), -1, (2, self.latent)).movedim(-2, 3).unsqueeze(-2)
        film = torch.cat([film[:, :, :, :1] + 1.0, film[:, :, :, 1:]], dim=3)
        return ConditionCache(frame_bias[:, None], film, torch.stack(keys, 1), torch.stack(values, 1), batch)

    def _check(self, field: str, value: Tensor, tail: tuple[int, ...]) -> None:
        if value.dim() != len(tail) + 1 or tuple(value.shape[1:]) != tail:
            raise ShapeError(field, str(tuple(value.shape)), f"(batch, {', '.join(map(str, tail))})")


def build_ditto(guidance_weight: float = 2.0) -> Lmdm:
    """LMDM v0.4 with a HuBERT-large condition: 80 frames, 47.8 M parameters."""
    return Lmdm(guidance_weight=guidance_weight)


def build_mini(
    *,
    cond_dim: int = 2 * 128 + 1,
    seq_frames: int = 32,
    latent: int = 192,
    heads: int = 6,
    feed_forward: int = 384,
    layers: int = 4,
    cond_layers: int = 1,
    guidance_weight: float = 1.0,
) -> Lmdm:
    """The `mini` family's LMDM: two encoder rows and a blink cue per frame, 32 frames."""
    return Lmdm(
        cond_dim=cond_dim,
        seq_frames=seq_frames,
        latent=latent,
        heads=heads,
        feed_forward=feed_forward,
        layers=layers,
        cond_layers=cond_layers,
        guidance_weight=guidance_weight,
    )
