"""The tail in one launch: against the reference, several avatars in one launch, straight into canvases, captured as a graph."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.composite import composite_nv12, composite_nv12_torch
from kernels.nv12.composite_device import make_target, plan_on, upload_plan
from kernels.nv12.composite_graph import CompositeGraph
from kernels.nv12.composite_plan import CompositePlan, plan_composite
from kernels.nv12.splice import canvas_planes
from pipeline.types import FaceRect
from tests.support.triton import DEVICES, assert_close, tiling_for
from tests.unit.kernels.nv12.test_composite import affine, noise, soft_mask

MATRICES = {
    "shrunk and turned": affine(),
    "partly outside": affine(0.4, -20.0, 60.0, 40.5),
    "one to one": affine(1.0, 0.0, 100.0, 60.0),
    "enlarged": affine(1.7, 3.0),
}


def plan_of(w: int = 70, h: int = 38, matrix=None, colour="bt709", chroma="mean", seed=1) -> CompositePlan:
    rect = FaceRect(100, 60, w, h)
    chosen = affine() if matrix is None else matrix
    return plan_composite(chosen, soft_mask(), noise((h, w, 3), seed), rect, colour=colour, chroma=chroma)


def crops_of(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(noise((n, 512, 512, 3), seed))


def blank_canvas(w: int, h: int, device: str) -> torch.Tensor:
    return torch.full((1, h * 3 // 2, w), 77, dtype=torch.uint8, device=device)


def assert_tail_close(got, want, what=""):
    """Within 1 level, and hardly anywhere different: fp32 sums in another order meet a rounding edge now and then."""
    assert_close(got, want, 1, what)
    assert (got.cpu() != want.cpu()).float().mean() < 0.005, what


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("colour,chroma,size", [("bt709", "mean", (70, 38)), ("bt601", "top_left", (64, 2))])
def test_triton_is_within_one_level_of_the_reference(device, name, colour, chroma, size):
    from kernels.nv12.composite_triton import composite

    plan = plan_of(*size, matrix=MATRICES[name], colour=colour, chroma=chroma)
    crops = crops_of(2)
    got = composite(crops.to(device), upload_plan(plan, device), tiling=tiling_for(device))
    for plane, want, label in zip(got, composite_nv12_torch(crops, plan), ("luma", "chroma"), strict=True):
        assert_tail_close(plane, want, label)


@pytest.mark.parametrize("device", DEVICES)
def test_the_last_pixel_of_the_crop_is_reached_and_nothing_after_it(device):
    from kernels.nv12.composite_triton import composite

    rect = FaceRect(0, 0, 16, 16)
    corner = np.array([[1, 0, -500], [0, 1, -500]], np.float64)
    plan = plan_composite(corner, np.ones((512, 512), np.float32), noise((16, 16, 3)), rect)
    crops = crops_of(1)
    got = composite(crops.to(device), upload_plan(plan, device), tiling=tiling_for(device))
    for plane, want in zip(got, composite_nv12_torch(crops, plan), strict=True):
        assert_tail_close(plane, want)


@pytest.mark.parametrize("device", DEVICES)
def test_where_the_mask_is_zero_the_bytes_are_those_of_the_background(device):
    from kernels.nv12.composite_triton import composite

    background = noise((38, 70, 3), 3)
    plan = plan_composite(affine(), np.zeros((512, 512), np.float32), background, FaceRect(100, 60, 70, 38))
    one = composite(crops_of(1, 4).to(device), upload_plan(plan, device), tiling=tiling_for(device))
    other = composite(crops_of(1, 5).to(device), upload_plan(plan, device), tiling=tiling_for(device))
    for plane, again, want in zip(one, other, composite_nv12_torch(crops_of(1), plan), strict=True):
        assert torch.equal(plane, again)
        assert_tail_close(plane, want)


@pytest.mark.parametrize("device", DEVICES)
def test_sessions_with_other_avatars_share_a_launch_and_keep_their_canvases(device):
    from kernels.nv12.composite_triton import composite_targets

    plans = [plan_of(70, 38, seed=1), plan_of(24, 64, MATRICES["enlarged"], seed=2), plan_of(2, 2, seed=3)]
    places = [(10, 4), (0, 0), (78, 62)]
    crops = crops_of(3)
    canvases = [blank_canvas(80, 64, device) for _ in plans]
    targets = [
        make_target(plan_on(plan, torch.device(device)), canvas, *place)
        for plan, canvas, place in zip(plans, canvases, places, strict=True)
    ]
    composite_targets(crops.to(device), targets, tiling=tiling_for(device))
    for i, (plan, canvas, (x, y)) in enumerate(zip(plans, canvases, places, strict=True)):
        want = blank_canvas(80, 64, "cpu")
        luma, chroma = canvas_planes(want)
        reference = composite_nv12_torch(crops[i : i + 1], plan)
        luma[:, y : y + plan.height, x : x + plan.width] = reference[0]
        chroma[:, y // 2 : (y + plan.height) // 2, x : x + plan.width] = reference[1]
        assert_tail_close(canvas, want, f"session {i}")


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_table_row_draws_nothing(device):
    from kernels.nv12.composite_triton import composite_into

    plan = plan_of()
    canvas = blank_canvas(80, 64, device)
    target = make_target(upload_plan(plan, device), canvas, 0, 0)
    addresses = torch.stack([target.addresses, torch.zeros_like(target.addresses)])
    affines = torch.stack([target.plan.affine, torch.zeros_like(target.plan.affine)])
    composite_into(
        crops_of(2).to(device), addresses, affines, (72, 40), plan.colour, plan.chroma, tiling=tiling_for(device)
    )
    assert_tail_close(canvas_planes(canvas)[0][:, :38, :70], composite_nv12_torch(crops_of(2)[:1], plan)[0])


def test_cpu_tensors_take_the_cpu_path():
    plan, crops = plan_of(), crops_of(2)
    for plane, want in zip(composite_nv12(crops, plan), composite_nv12(crops.numpy(), plan), strict=True):
        assert isinstance(plane, torch.Tensor)
        np.testing.assert_array_equal(plane.numpy(), want)
    with pytest.raises(ShapeError):
        composite_nv12(crops.float(), plan)


def test_targets_that_do_not_fit_are_refused():
    plan = upload_plan(plan_of(), "cpu")
    canvas = blank_canvas(80, 64, "cpu")
    for place in ((1, 0), (0, 3), (-2, 0), (12, 0), (0, 28)):
        with pytest.raises(InvalidInputError):
            make_target(plan, canvas, *place)
    with pytest.raises(ShapeError):
        make_target(plan, canvas.expand(2, -1, -1), 0, 0)
    shifted = torch.zeros(canvas.numel() + 1, dtype=torch.uint8)[1:].view(canvas.shape)
    with pytest.raises(InvalidInputError, match="even addresses"):
        make_target(plan, shifted, 0, 0)


def test_a_graph_needs_a_gpu():
    with pytest.raises(InvalidInputError, match="CUDA"):
        CompositeGraph(1, 64, 64, device="cpu")


@pytest.mark.gpu
def test_the_wrapper_uses_the_gpu_and_keeps_the_plan_there():
    plan, crops = plan_of(), crops_of(3)
    first = composite_nv12(crops.cuda(), plan)
    kept = dict(plan.on_devices)
    second = composite_nv12(crops.cuda(), plan)
    assert list(kept) == ["cuda:0"] and plan.on_devices["cuda:0"] is kept["cuda:0"]
    for plane, again, want in zip(first, second, composite_nv12_torch(crops, plan), strict=True):
        assert plane.is_cuda and torch.equal(plane, again)
        assert_tail_close(plane, want)


@pytest.mark.gpu
def test_a_graph_serves_sessions_that_come_and_go_from_several_threads_and_streams():
    graph = CompositeGraph(4, 96, 96)
    plans = [plan_of(70, 38, seed=1), plan_of(24, 64, MATRICES["enlarged"], seed=2), plan_of(96, 96, seed=3)]
    pictures = 40
    failures: list[str] = []

    def session(index: int) -> None:
        plan = plans[index % len(plans)]
        canvas = blank_canvas(128, 128, "cuda")
        target = make_target(plan_on(plan, torch.device("cuda:0")), canvas, 2 * index, 4)
        with torch.cuda.stream(torch.cuda.Stream()):
            for picture in range(pictures):
                crops = crops_of(1, 1000 * index + picture % 5).cuda()
                graph.run(crops, [target])
                got = [p.cpu() for p in canvas_planes(canvas)]
                want = composite_nv12_torch(crops.cpu(), plan)
                x, y = 2 * index, 4
                luma = got[0][:, y : y + plan.height, x : x + plan.width]
                chroma = got[1][:, y // 2 : (y + plan.height) // 2, x : x + plan.width]
                worst = max(int((a.int() - b.int()).abs().max()) for a, b in zip((luma, chroma), want, strict=True))
                if worst > 1:
                    failures.append(f"session {index}, picture {picture}: {worst}")

    torch.cuda.synchronize()
    threads = [threading.Thread(target=session, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.gpu
def test_a_graph_run_draws_only_the_named_canvases_and_refuses_what_does_not_fit():
    graph = CompositeGraph(3, 72, 40)
    plan = plan_on(plan_of(), torch.device("cuda:0"))
    targets = [make_target(plan, blank_canvas(80, 64, "cuda"), 0, 0) for _ in range(3)]
    crops = crops_of(3).cuda()
    graph.run(crops, targets)
    drawn = [target.canvas.clone() for target in targets]
    for target in targets:
        target.canvas.fill_(77)
    graph.run(crops[:1], targets[:1])
    assert torch.equal(targets[0].canvas, drawn[0])
    assert all((target.canvas == 77).all() for target in targets[1:])
    graph.run(crops[:0], [])
    with pytest.raises(InvalidInputError, match="at most 3"):
        graph.run(crops, targets[:2])
    with pytest.raises(InvalidInputError, match="canvas"):
        graph.run(crops[:2], [targets[0], targets[0]])
    large = make_target(upload_plan(plan_of(74, 38), "cuda"), blank_canvas(80, 64, "cuda"), 0, 0)
    with pytest.raises(InvalidInputError, match="72x40"):
        graph.run(crops[:1], [large])
    other = make_target(upload_plan(plan_of(colour="bt601"), "cuda"), blank_canvas(80, 64, "cuda"), 0, 0)
    with pytest.raises(InvalidInputError, match="bt709"):
        graph.run(crops[:1], [other])
    graph.run(crops, targets)
    assert all(torch.equal(target.canvas, before) for target, before in zip(targets, drawn, strict=True))
