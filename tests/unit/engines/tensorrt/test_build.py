"""Every engine is really exported, parsed and built, on a CPU, for a card that is elsewhere.

Running one needs a card that the library supports: `test_an_engine_runs_and_agrees` is ready for such a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from engines.ditto.dense_motion_core import DenseMotionCore
from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder
from engines.ditto.hubert.engine import find_hubert_plan, read_hubert
from engines.networks import build
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from engines.tensorrt import load as load_module
from engines.tensorrt.build import BuildSettings, build_plan, profiles_of
from engines.tensorrt.errors import EngineBuildError, EngineExportError, TensorRtMissingError
from engines.tensorrt.export import Graph, export
from engines.tensorrt.library import Library, find_library
from engines.tensorrt.load import EngineSettings, cached_plan, find_plan, load_or_build
from engines.tensorrt.spec import EngineSpec
from engines.tensorrt.target import choose_target
from engines.tensorrt.verify import compare
from kernels.errors import InvalidInputError
from tests.support.require import missing
from tests.support.tensorrt import RECIPES, TINY, Tiny, elsewhere, real_library


@pytest.fixture(scope="module")
def library() -> Library:
    return real_library()


@pytest.fixture(scope="module", autouse=True)
def one_thread_each() -> None:
    torch.set_num_threads(1)


HEAVY = ("ditto/post_warp_decoder", "ditto/dense_motion_core")
"""Minutes on a CPU at full size; `test_heavy_graphs_compute_their_networks` looks at them on small maps."""


@pytest.mark.timeout(900)  # half a minute on a quiet core, many times that on a busy one
@pytest.mark.parametrize("name", RECIPES)
def test_every_engine_is_built(name: str, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the graph that it is built from computes the network."""
    spec, module = RECIPES[name].spec, RECIPES[name].network()
    graphs: list[Graph] = []

    def export_and_keep(spec: EngineSpec, module: nn.Module) -> Graph:
        graphs.append(export(spec, module))
        return graphs[-1]

    monkeypatch.setattr(load_module, "export", export_and_keep)
    settings = EngineSettings(folder=tmp_path)
    plan = find_plan(spec, module, library, elsewhere(), settings)
    weights = sum(parameter.numel() for parameter in module.parameters()) * spec.dtype.itemsize
    assert plan.built and len(plan.data) > 0.5 * weights
    again = cached_plan(spec, module, library, elsewhere(), settings)
    assert again is not None and again.data == plan.data and not again.built
    assert len(graphs) == 1  # the second look needed no export
    if name not in HEAVY:
        assert compare(spec, on_onnxruntime(spec, graphs[0]), module, spec.random_inputs(1), "cpu").passes(spec.gate)


@pytest.mark.timeout(900)
def test_heavy_graphs_compute_their_networks() -> None:
    warp, decoder = build("ditto/warp_network"), build("ditto/decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    for name, module in (
        ("ditto/post_warp_decoder", FusedPostWarpDecoder(warp, decoder)),
        ("ditto/dense_motion_core", DenseMotionCore(warp.dense_motion_network, size=32)),
    ):
        spec = RECIPES[name].spec
        size = 16 if "decoder" in name else 32
        ports = tuple(replace(port, shape=tuple(size if n == 64 else n for n in port.shape)) for port in spec.inputs)
        small = replace(spec, inputs=ports)
        run = on_onnxruntime(small, export(small, module))
        assert compare(small, run, module, small.random_inputs(1), "cpu").passes(spec.gate)


def on_onnxruntime(spec: EngineSpec, graph: Graph) -> Callable[..., tuple[torch.Tensor, ...]]:
    try:
        import onnxruntime
    except ImportError:
        missing("EXTRAS", "no onnxruntime: pip install 'liveanchor[onnx]'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph.onnx, options, providers=["CPUExecutionProvider"])

    def run_all(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        feeds = {port.name: value.numpy() for port, value in zip(spec.inputs, inputs, strict=True)}
        return tuple(torch.from_numpy(value) for value in session.run(list(spec.outputs), feeds))

    return run_all


def test_what_is_not_in_the_cache_is_not_built_by_looking(library: Library, tmp_path: Path) -> None:
    settings = EngineSettings(folder=tmp_path)
    assert cached_plan(TINY, Tiny(), library, elsewhere(), settings) is None
    find_plan(TINY, Tiny(), library, elsewhere(), settings)
    assert cached_plan(TINY, Tiny(seed=1), library, elsewhere(), settings) is None
    other = EngineSettings(folder=tmp_path, build=BuildSettings(optimisation_level=0))
    assert cached_plan(TINY, Tiny(), library, elsewhere(), other) is None


def test_a_build_tells_how_far_it_is(library: Library) -> None:
    told: list[tuple[str, int, int]] = []
    graph = export(TINY, Tiny())
    build_plan(
        TINY.name,
        graph.onnx,
        profiles_of(TINY),
        BuildSettings(),
        library,
        elsewhere(),
        lambda *step: told.append(step),
    )
    assert told and all(0 <= step <= max(steps, step) for _, step, steps in told)


def test_a_graph_that_is_none_is_refused_with_the_librarys_words(library: Library) -> None:
    with pytest.raises(EngineBuildError, match="cannot read the graph"):
        build_plan("x", b"no graph", profiles_of(TINY), BuildSettings(), library, elsewhere())


def test_an_input_without_a_profile_is_refused(library: Library) -> None:
    graph = export(TINY, Tiny())
    profiles = [{name: sizes for name, sizes in profile.items() if name != "shift"} for profile in profiles_of(TINY)]
    with pytest.raises(EngineBuildError, match="shift"):
        build_plan("x", graph.onnx, profiles, BuildSettings(), library, elsewhere())


@pytest.mark.parametrize("settings", [{"workspace_mib": 1}, {"optimisation_level": 6}, {"aux_streams": -1}])
def test_settings_out_of_range_name_the_field(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        BuildSettings(**settings)


class HubertShaped(nn.Module):
    """The signature of the public file at a hundredth of its size: convolutions, one attention block, rows of 1024."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.front = nn.Conv1d(1, 32, 400, stride=320)
        self.norm = nn.LayerNorm(32)
        self.query_key_value = nn.Linear(32, 96)
        self.out = nn.Linear(32, 1024)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.front(samples[:, None]).transpose(1, 2))
        q, k, v = self.query_key_value(x).chunk(3, dim=-1)
        return self.out(torch.softmax(q @ k.transpose(1, 2) / 32**0.5, dim=-1) @ v)[0]


@pytest.fixture(scope="module")
def hubert_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hubert") / "hubert.onnx"
    program = torch.onnx.export(
        HubertShaped().eval(),
        (torch.zeros(1, 6480),),
        dynamo=True,
        opset_version=17,
        input_names=["input_values"],
        output_names=["rows"],
        verbose=False,
    )
    assert program is not None
    program.save(str(path))
    return path


def test_hubert_is_built_from_its_file(library: Library, hubert_file: Path, tmp_path: Path) -> None:
    graph = read_hubert(hubert_file)
    assert (graph.spec.max_batch, graph.spec.outputs) == (1, ("rows",))
    settings = EngineSettings(folder=tmp_path)
    assert find_hubert_plan(hubert_file, library, elsewhere(), settings).built
    assert not find_hubert_plan(hubert_file, library, elsewhere(), settings).built


def test_a_file_that_is_not_hubert_is_refused(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(export(TINY, Tiny()).onnx)
    with pytest.raises(EngineExportError, match="input_values"):
        read_hubert(path)
    path.write_bytes(b"\x00\x01garbage")
    with pytest.raises(EngineExportError, match="usable"):
        read_hubert(path)
    with pytest.raises(EngineExportError, match="usable"):
        read_hubert(tmp_path / "missing.onnx")


@pytest.mark.gpu
@pytest.mark.parametrize("name", RECIPES)
def test_an_engine_runs_and_agrees(name: str, tmp_path: Path) -> None:
    """On a GPU that the installed library supports; also inside a CUDA graph."""
    try:
        choose_target(find_library(has_gpu=True))
    except TensorRtMissingError as error:
        pytest.skip(str(error))
    module = RECIPES[name].network()
    runtime = load_or_build(RECIPES[name].spec, module, settings=EngineSettings(folder=tmp_path))  # verifies
    inputs = RECIPES[name].spec.random_inputs(2, device="cuda")
    eager = runtime.run_all(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = runtime.run_all(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    for one, other in zip(captured, eager, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("stage", ["motion", "renderer"])
def test_a_stage_runs_over_engines_inside_cuda_graphs(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named runtime must verify against eager, or the stage does not start."""
    from engines.ditto import motion_runtime, render_runtime
    from engines.networks import build
    from engines.networks.lmdm import Lmdm

    try:
        choose_target(find_library(has_gpu=True))
    except TensorRtMissingError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    if stage == "motion":
        lmdm = build("ditto/lmdm", seed=3)
        assert isinstance(lmdm, Lmdm)
        runtime = motion_runtime.motion_runtime(lmdm, 4, "cuda", "tensorrt")
        given = motion_runtime.example(lmdm, 4, 3)
    else:
        warp, decoder = build("ditto/warp_network"), build("ditto/decoder")
        runtime = render_runtime.render_runtime(warp, decoder, "cuda", "tensorrt")
        given = render_runtime.example(3)
    made = runtime.run(*given)
    assert runtime.name == "tensorrt" and len(made) == 3 and torch.isfinite(made.float()).all()
    torch.testing.assert_close(runtime.run(*given), made)
