"""The Ditto motion model's sampling loop for a GPU: the function of `engines.ditto.motion_sampler.MotionSampler`, in few launches.

* Once per process: everything that depends on the schedule alone: time embeddings, FiLM factors, keys and values of the
  unconditional branch, keys and values of the time tokens.
* Once per window: condition encoder, keys and values of the condition for all layers in one product, FiLM factors of all steps
  and layers in one product.
* Per step: 8 launches a layer and 3 around them, for both guidance branches together: norms, rotations, biases, GELU, FiLM,
  residuals, guidance and DDIM's update are parts of the products next to them.

The residual stream, the motion, norms and softmax are float32; products run in the type of the weights. The loop reads nothing
back, so it can be captured whole (`engines.runtimes.cuda_graphs.BucketedGraph`). On the CPU in float32 it gives the sampler's
numbers up to rounding.
"""

from __future__ import annotations

import copy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.diffusion import DdimStep, ddim_steps
from engines.ditto.fast.layers import (
    FusedDecoderLayer,
    FusedEncoderLayer,
    LayerCondition,
    Tables,
    stacked,
)
from engines.ditto.motion_sampler import check_noise
from engines.networks.lmdm import TIME_TOKENS, EncoderLayer, Lmdm
from engines.networks.rewriting import frozen
from kernels.lmdm.ddim_project import Update, ddim_project
from kernels.lmdm.linear_film import linear_film
from kernels.lmdm.norm_linear import norm_linear


class FastSampler(nn.Module):
    """Sample whole windows by DDIM (eta = 1).

    Args:
        lmdm: Where the weights come from; they are copied, to where they lie.
        steps: DDIM steps.
        dtype: Type of the products: float32, float16 or bfloat16.
    """

    cos: Tensor
    sin: Tensor
    motion_in: Tensor
    frame_in: Tensor
    input_bias: Tensor
    cond_weight: Tensor
    cond_bias: Tensor
    memory_gain: Tensor
    memory_offset: Tensor
    memory_weight: Tensor
    memory_bias: Tensor
    film_weight: Tensor
    film_bias: Tensor
    time_vector: Tensor
    time_tokens: Tensor
    null_film: Tensor
    null_memory: Tensor
    final_weight: Tensor
    final_bias: Tensor

    def __init__(self, lmdm: Lmdm, steps: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = dtype
        self.seq_frames, self.motion_dim, self.width = lmdm.seq_frames, lmdm.motion_dim, lmdm.latent
        self.guidance = None if lmdm.guidance_weight == 1.0 else lmdm.guidance_weight
        self.schedule = ddim_steps(steps)
        self.updates = tuple(update_weights(step) for step in self.schedule)
        layers = list(lmdm.seqTransDecoder.layers())
        self.encoder = nn.ModuleList(
            [FusedEncoderLayer(cast(EncoderLayer, layer), dtype) for layer in lmdm.cond_encoder]
        )
        self.decoder = nn.ModuleList([FusedDecoderLayer(layer, dtype) for layer in layers])
        self.pooling = copy.deepcopy(lmdm.non_attn_cond_projection)  # float32: a few rows a window
        with torch.inference_mode(False), torch.no_grad():
            self._copy_weights(lmdm)
            self._fix_schedule(lmdm)
        self.requires_grad_(False).eval()

    @property
    def steps(self) -> int:
        """DDIM steps."""
        return len(self.schedule)

    def forward(self, cond_frame: Tensor, cond: Tensor, noise: Tensor) -> Tensor:
        """Sample.

        Args:
            cond_frame: float32 (B, 265), the frame before the window.
            cond: float32 (B, 80, 1103).
            noise: float32 (B, steps, 80, 265): one noise per step but the last, then the starting noise.

        Returns:
            float32 (B, 80, 265).

        Raises:
            ShapeError: The three do not fit together.
        """
        check_noise(noise, (len(cond), self.steps, self.seq_frames, self.motion_dim))
        memory, film, frame_bias = self._encode(cond_frame, cond)
        h = torch.empty((len(frame_bias), self.seq_frames, self.width), device=cond.device)
        x = noise[:, -1].contiguous()
        for index, update in enumerate(self.updates):
            h.copy_(frame_bias.expand_as(h))
            linear_film(h, x, self.motion_in, None)
            self._decode(h, memory, film[index], index)
            x = ddim_project(h, self.final_weight, self.final_bias, x, noise[:, index], update, self.guidance)
        return x

    def _decode(self, h: Tensor, memory: Tensor, film: Tensor, index: int) -> None:
        """All layers of one step on h, in place; memory (g, length, layers * 2 * width), film (g, layers, 3, 2, width)."""
        tables, w = self._tables(), self.width
        values_from = memory.shape[2] // 2
        for number, layer in enumerate(self.decoder):
            keys, values = (memory[..., at + number * w : at + (number + 1) * w] for at in (0, values_from))
            time = self.time_tokens[index, number]
            layer(h, LayerCondition(film[:, number], keys, values, (time[0], time[1])), tables)

    def _encode(self, cond_frame: Tensor, cond: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a window does once: keys and values, FiLM factors, the condition frame's share of the input."""
        tables = self._tables()
        c = F.linear(cond.to(self.dtype), self.cond_weight, self.cond_bias.to(self.dtype)).float()
        for layer in self.encoder:
            c = layer(c, tables)
        pooled = self.pooling(c.mean(dim=-2))
        memory = norm_linear(
            c,
            self.memory_gain,
            self.memory_offset,
            self.memory_weight,
            self.memory_bias,
            tables=tables,
            rotated=len(self.memory_weight) // 2,
        )
        film = self._film(self.time_vector[:, None] + pooled)
        frame_bias = F.linear(cond_frame.float(), self.frame_in, self.input_bias)[:, None]
        if self.guidance is not None:
            memory = torch.cat([memory, self.null_memory.expand_as(memory)])
            film = torch.cat([film, self.null_film.expand_as(film)], dim=1)
            frame_bias = torch.cat([frame_bias, frame_bias])
        return memory, film, frame_bias

    def _film(self, time: Tensor) -> Tensor:
        """Time vectors (steps, b, width) -> scale and shift (steps, b, layers, 3, 2, width)."""
        film = F.linear(F.mish(time).to(self.dtype), self.film_weight, self.film_bias.to(self.dtype))
        return torch.unflatten(film, -1, (len(self.decoder), 3, 2, self.width))

    def _tables(self) -> Tables:
        return self.cos, self.sin

    def _copy_weights(self, lmdm: Lmdm) -> None:
        layers, w, dim = list(lmdm.seqTransDecoder.layers()), lmdm.latent, lmdm.motion_dim
        cos, sin = lmdm.rotary.tables(lmdm.seq_frames)
        films = [cast(nn.Linear, film.block[1]) for layer in layers for film in (layer.film1, layer.film2, layer.film3)]
        cross = [layer.multihead_attn for layer in layers]
        key_rows = [attention.in_proj_weight[w : 2 * w] for attention in cross]
        value_rows = [attention.in_proj_weight[2 * w :] for attention in cross]
        for name, value in (
            ("cos", cos),
            ("sin", sin),
            ("motion_in", lmdm.input_projection.weight[:, :dim]),
            ("cond_weight", lmdm.cond_projection.weight),
            ("memory_weight", stacked([*key_rows, *value_rows])),
            ("film_weight", stacked(film.weight for film in films)),
            ("final_weight", lmdm.final_layer.weight),
        ):
            frozen(self, name, value, self.dtype)
        for name, value in (
            ("frame_in", lmdm.input_projection.weight[:, dim:]),
            ("input_bias", lmdm.input_projection.bias),
            ("cond_bias", lmdm.cond_projection.bias),
            ("memory_gain", lmdm.norm_cond.weight),
            ("memory_offset", lmdm.norm_cond.bias),
            (
                "memory_bias",
                stacked(
                    [
                        *(attention.in_proj_bias[w : 2 * w] for attention in cross),
                        *(attention.in_proj_bias[2 * w :] for attention in cross),
                    ]
                ),
            ),
            ("film_bias", stacked(film.bias for film in films)),
            ("final_bias", lmdm.final_layer.bias),
        ):
            frozen(self, name, value, torch.float32)

    def _fix_schedule(self, lmdm: Lmdm) -> None:
        """What depends on the schedule alone, in float32: time vectors, time tokens' keys and values, the null branch."""
        times = torch.tensor([step.time for step in self.schedule], device=lmdm.null_cond_embed.device)
        hidden = lmdm.time_mlp(times)
        time = lmdm.to_time_cond(hidden)
        tokens = lmdm.norm_cond(torch.unflatten(lmdm.to_time_tokens(hidden), -1, (TIME_TOKENS, lmdm.latent)))
        null = lmdm.norm_cond(lmdm.null_cond_embed)
        places = lmdm.rotary.tables(lmdm.seq_frames + TIME_TOKENS)
        before, after = (
            [table[at] for table in places] for at in (slice(lmdm.seq_frames), slice(lmdm.seq_frames, None))
        )
        turned_null = lmdm.rotary.rotate(null, (before[0], before[1]))
        turned_tokens = lmdm.rotary.rotate(tokens, (after[0], after[1]))
        w = lmdm.latent
        pairs, null_keys, null_values = [], [], []
        for layer in lmdm.seqTransDecoder.layers():
            attention = layer.multihead_attn
            weight, bias = attention.in_proj_weight, attention.in_proj_bias
            key, value = (weight[w : 2 * w], bias[w : 2 * w]), (weight[2 * w :], bias[2 * w :])
            pairs.append(torch.stack([F.linear(turned_tokens, *key), F.linear(tokens, *value)], dim=1))
            null_keys.append(F.linear(turned_null, *key))
            null_values.append(F.linear(null, *value))
        films = F.linear(F.mish(time + lmdm.null_cond_hidden), self.film_weight.float(), self.film_bias)
        frozen(self, "time_vector", time, torch.float32)
        frozen(self, "time_tokens", torch.stack(pairs, dim=1), self.dtype)
        frozen(self, "null_memory", torch.cat([*null_keys, *null_values], dim=-1), self.dtype)
        frozen(self, "null_film", torch.unflatten(films, -1, (len(self.decoder), 3, 2, w))[:, None], self.dtype)


def update_weights(step: DdimStep) -> Update:
    """DDIM's step as weights of x0, x and the noise: the coefficients of `engines.diffusion.ddim_sample`, collected."""
    if step.next_time < 0:
        return 1.0, 0.0, 0.0
    return step.keep - step.direction * step.eps_x0, step.direction * step.eps_x, step.sigma
