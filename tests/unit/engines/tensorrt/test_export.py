"""Export: what a graph may hold, the same bytes twice, numbers as the module's."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engines.ditto.engine_modules import LmdmStep, PackedMotionExtractor, StepRuntimeLmdm, step_inputs, unpack_motion
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.tensorrt.errors import EngineExportError, UnknownEngineError
from engines.tensorrt.export import OPSET, check_graph, export
from engines.tensorrt.load import source_digest
from engines.tensorrt.precision import in_type
from engines.tensorrt.recipes import choose_recipes
from engines.tensorrt.spec import EngineSpec, Port
from kernels.errors import InvalidInputError
from pipeline.inventory import engine_recipes
from tests.support.require import missing
from tests.support.tensorrt import RECIPES, TINY, Tiny

try:
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401 - the exporter needs it
except ImportError:
    onnx = None

pytestmark = pytest.mark.usefixtures("exporter")


@pytest.fixture
def exporter() -> None:
    if onnx is None:
        missing("EXTRAS", "no exporter: pip install 'liveanchor[onnx]'")


def test_the_graph_has_a_dynamic_batch_an_old_opset_and_no_traces_of_this_machine() -> None:
    graph = export(TINY, Tiny())
    model = onnx.load_from_string(graph.onnx)
    assert max(entry.version for entry in model.opset_import) <= OPSET
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param
    assert b"/engines/" not in graph.onnx and b".py" not in graph.onnx and b"File " not in graph.onnx


def test_the_same_network_gives_the_same_bytes() -> None:
    assert export(TINY, Tiny()).onnx == export(TINY, Tiny()).onnx
    assert export(TINY, Tiny()).onnx != export(TINY, Tiny(seed=1)).onnx


def test_the_graph_computes_the_module_at_batches_it_was_not_traced_with() -> None:
    graph = export(TINY, Tiny())
    session = onnxruntime.InferenceSession(graph.onnx, providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        image, shift = TINY.random_inputs(batch, seed=batch)
        (got,) = session.run(None, {"image": image.numpy(), "shift": shift.numpy()})
        reference = Tiny()(image.float(), shift)
        assert got.dtype == np.float16 and got.shape == (batch, 4, 8, 8)
        np.testing.assert_allclose(got.astype(np.float32), reference.detach().numpy(), atol=5e-3)


def test_the_network_itself_stays_float32() -> None:
    module = Tiny()
    export(TINY, module)
    assert module.conv.weight.dtype == torch.float32


class Sampling(nn.Module):
    def forward(self, image: Tensor, shift: Tensor) -> Tensor:
        grid = shift[:, None, None, :2].expand(-1, 8, 8, 2).to(image.dtype)
        return torch.nn.functional.grid_sample(image, grid, align_corners=True)


def test_a_grid_sample_inside_is_refused() -> None:
    with pytest.raises(EngineExportError, match="grid sample"):
        export(TINY, Sampling())


class Fixed(nn.Module):
    def forward(self, image: Tensor, shift: Tensor) -> Tensor:
        return image.reshape(2, 3, 64).sum(dim=2) + shift[:, :3].to(image.dtype)


def test_a_network_that_fixes_the_batch_is_refused() -> None:
    with pytest.raises(EngineExportError):
        export(TINY, Fixed())


def test_a_newer_opset_is_refused() -> None:
    model = onnx.load_from_string(export(TINY, Tiny()).onnx)
    model.opset_import[0].version = 20
    with pytest.raises(EngineExportError, match="opset"):
        check_graph(TINY, model)


@pytest.mark.parametrize("name", RECIPES)
def test_example_inputs_fit_the_network(name: str) -> None:
    """Shapes only: on the meta device nothing is computed."""
    spec = RECIPES[name].spec
    module = in_type(RECIPES[name].network(), spec.dtype).to("meta")
    out = module(*(value.to("meta") for value in spec.random_inputs(2)))
    outputs = (out,) if isinstance(out, Tensor) else tuple(out)
    assert len(outputs) == len(spec.outputs)
    assert all(output.shape[0] == 2 for output in outputs)


def test_lmdm_step_is_the_networks_denoising_step(one_thread: None) -> None:
    lmdm = build("ditto/lmdm")
    assert isinstance(lmdm, Lmdm)
    torch.manual_seed(3)
    x, frame, cond = torch.randn(2, 80, 265), torch.randn(2, 265), torch.randn(2, 80, 1103)
    with torch.inference_mode():
        cache = lmdm.encode_condition(frame, cond, torch.tensor([999, 499]))
        inputs = step_inputs(cache, 1)
        assert all(tensor.is_contiguous() for tensor in inputs)
        assert [tuple(tensor.shape) for tensor in inputs] == [
            port.sized(2) for port in RECIPES["ditto/lmdm_step"].spec.inputs[1:]
        ]
        torch.testing.assert_close(LmdmStep(lmdm)(x, *inputs), lmdm.denoise(x, 1, cache), atol=2e-6, rtol=1e-5)


def test_the_sampling_loop_over_an_engine_is_the_sampler(one_thread: None) -> None:
    from engines.ditto.motion_sampler import MotionSampler
    from engines.runtimes.torch import TorchRuntime

    lmdm = build("mini/lmdm", guidance_weight=2.0)
    assert isinstance(lmdm, Lmdm)
    torch.manual_seed(4)
    inputs = torch.randn(2, 265), torch.randn(2, 32, lmdm.cond_dim), torch.randn(2, 3, 32, 265)
    step = StepRuntimeLmdm(lmdm, TorchRuntime(LmdmStep(copy.deepcopy(lmdm))), torch.float32)
    with torch.inference_mode():
        made = MotionSampler(step, 3)(*inputs)  # type: ignore[arg-type]  # it has what the sampler asks for
        torch.testing.assert_close(made, MotionSampler(lmdm, 3)(*inputs), atol=1e-5, rtol=1e-4)
    with pytest.raises(InvalidInputError, match="guidance"):
        StepRuntimeLmdm(build("mini/lmdm"), TorchRuntime(nn.Identity()))  # type: ignore[arg-type]


def test_the_engine_s_sampler_takes_any_number_of_windows(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    from engines.ditto import motion_runtime
    from engines.ditto.motion_sampler import MotionSampler
    from engines.runtimes.choice import relative_error
    from engines.runtimes.torch import TorchRuntime
    from engines.tensorrt import load

    lmdm = build("mini/lmdm", cond_dim=37, seq_frames=20, latent=64, heads=4, layers=2, guidance_weight=2.0)
    assert isinstance(lmdm, Lmdm)

    def as_an_engine(spec: EngineSpec, module: nn.Module, *_: object) -> TorchRuntime:
        assert spec.name == "ditto/lmdm_step"
        return TorchRuntime(copy.deepcopy(module).half())

    monkeypatch.setattr(load, "load_or_build", as_an_engine)
    runtime = motion_runtime._tensorrt(lmdm, 3, "cpu")
    given = motion_runtime.example(lmdm, 3, 17, seed=4)
    assert runtime.name == "tensorrt"
    with torch.inference_mode():
        assert relative_error(runtime.run(*given), MotionSampler(lmdm, 3)(*given)) < 1e-2


def test_motion_is_packed_and_unpacked(one_thread: None) -> None:
    extractor = build("ditto/motion_extractor")
    image = torch.rand(1, 3, 256, 256)
    with torch.inference_mode():
        for got, expected in zip(unpack_motion(PackedMotionExtractor(extractor)(image)), extractor(image), strict=True):
            torch.testing.assert_close(got, expected)


def test_rotation_frequencies_stay_float32() -> None:
    half = in_type(build("ditto/lmdm"), torch.float16)
    assert half.rotary.freqs.dtype == torch.float32  # type: ignore[union-attr]
    assert half.final_layer.weight.dtype == torch.float16  # type: ignore[union-attr]


def test_the_source_digest_follows_weights_options_and_spec() -> None:
    digest = source_digest(TINY, Tiny())
    assert digest == source_digest(TINY, Tiny())
    others = [source_digest(TINY, Tiny(seed=1)), source_digest(TINY, Tiny(gain=2.0))]
    narrower = EngineSpec(
        TINY.name, (Port("image", (-1, 3, 8, 8)), TINY.inputs[1]), TINY.outputs, TINY.gate, TINY.about, max_batch=2
    )
    others.append(source_digest(narrower, Tiny()))
    assert digest not in others and len(set(others)) == 3


def test_names_stand_for_engines() -> None:
    every = engine_recipes()

    def names(text: str) -> list[str]:
        return [recipe.name for recipe in choose_recipes(text, every)]

    assert names("rife/4.9") == [f"rife/4.9/block{index}" for index in range(4)]
    assert "ditto/hubert" in names("ditto") and set(RECIPES) < set(names("all"))
    assert names("ditto/hubert") == ["ditto/hubert"]
    for unknown in ("rife/4", "ditto/nothing", ""):
        with pytest.raises(UnknownEngineError, match="ditto"):
            names(unknown)
