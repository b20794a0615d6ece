from __future__ import annotations

import pytest
import torch

from engines.networks import UnknownNetworkError, build, names
from engines.networks.lmdm import Lmdm
from kernels.errors import ShapeError

SMALL = {"cond_dim": 9, "seq_frames": 6, "latent": 16, "heads": 2, "feed_forward": 24, "layers": 2}


def small(**config: float) -> Lmdm:
    module = build("mini/lmdm", seed=3, **{**SMALL, **config})
    assert isinstance(module, Lmdm)
    return module


def inputs(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(batch, 6, 265, generator=generator),
        torch.randn(batch, 265, generator=generator),
        torch.randn(batch, 6, 9, generator=generator),
    )


@pytest.mark.parametrize("weight", [1.0, 2.0, 0.0])
def test_hoisted_work_gives_the_same_prediction(weight: float) -> None:
    module, (x, frame, cond) = small(guidance_weight=weight), inputs()
    times = torch.tensor([999, 500, 0])
    with torch.inference_mode():
        cache = module.encode_condition(frame, cond, times)
        for index, time in enumerate(times):
            torch.testing.assert_close(
                module.denoise(x, index, cache), module(x, frame, cond, time[None]), atol=2e-5, rtol=1e-5
            )


def test_guidance_mixes_the_two_branches() -> None:
    module, (x, frame, cond) = small(guidance_weight=3.0), inputs()
    with torch.inference_mode():
        cache = module.encode_condition(frame, cond, torch.tensor([500]))
        conditional, unconditional = module.denoise_branches(x, 0, cache).chunk(2)
        torch.testing.assert_close(
            module.denoise(x, 0, cache), unconditional + 3.0 * (conditional - unconditional), atol=1e-5, rtol=1e-5
        )
        other = module.encode_condition(frame, cond * 2.0, torch.tensor([500]))
        torch.testing.assert_close(module.denoise_branches(x, 0, other).chunk(2)[1], unconditional)


def test_at_weight_one_the_unconditional_branch_is_not_computed() -> None:
    module, (x, frame, cond) = small(guidance_weight=1.0), inputs()
    with torch.inference_mode():
        cache = module.encode_condition(frame, cond, torch.tensor([500]))
        assert module.denoise_branches(x, 0, cache).shape[0] == 2


def test_every_item_of_a_batch_is_alone() -> None:
    module, (x, frame, cond) = small(guidance_weight=2.0), inputs(3)
    t = torch.tensor([300])
    with torch.inference_mode():
        both = module(x, frame, cond, t)
        for i in range(3):
            torch.testing.assert_close(
                both[i : i + 1], module(x[i : i + 1], frame[i : i + 1], cond[i : i + 1], t), atol=2e-5, rtol=1e-5
            )


def test_training_s_variant_agrees_with_inference() -> None:
    module, (x, frame, cond) = small(guidance_weight=2.0), inputs(2)
    with torch.inference_mode():
        mixed = module.encode_branches(frame, cond, torch.tensor([700, 20]), torch.tensor([False, True]))
        got = module.denoise_branches(x, 0, mixed)
        for item, (time, branch) in enumerate(((700, 0), (20, 1))):
            cache = module.encode_condition(frame, cond, torch.tensor([time]))
            wanted = module.denoise_branches(x, 0, cache).chunk(2)[branch]
            torch.testing.assert_close(got[item], wanted[item], atol=2e-5, rtol=1e-5)


def test_the_condition_frame_and_the_condition_both_matter() -> None:
    module, (x, frame, cond) = small(), inputs()
    t = torch.tensor([500])
    with torch.inference_mode():
        base = module(x, frame, cond, t)
        assert not torch.allclose(base, module(x, frame + 1.0, cond, t))
        assert not torch.allclose(base, module(x, frame, cond + 1.0, t))


def test_wrong_shapes_are_named() -> None:
    module, (x, frame, cond) = small(), inputs()
    with pytest.raises(ShapeError, match="cond"):
        module(x, frame, cond[..., :-1], torch.tensor([1]))
    with pytest.raises(ShapeError, match="x"):
        module(x[:, :-1], frame, cond, torch.tensor([1]))


def test_build_is_reproducible_leaves_the_generator_alone_and_names_what_it_does_not_know() -> None:
    state = torch.random.get_rng_state()
    first, second = build("mini/lmdm", **SMALL), build("mini/lmdm", **SMALL)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not first.training
    assert {"ditto/lmdm", "mini/lmdm", "mini/speech_encoder"} <= set(names())
    with pytest.raises(UnknownNetworkError, match="mini/lmdm"):
        build("mini/nothing")
    with pytest.raises(UnknownNetworkError, match="colour"):
        build("mini/lmdm", colour=1)
