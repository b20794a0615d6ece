"""HuBERT as a torch module: its shape, its weights out of an ONNX file, refusal of files that are something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from benchmarks.ditto.checkpoint_folder import export_encoder
from engines.ditto.hubert.file import OnnxGraph, read_hubert
from engines.ditto.hubert.graph import GraphedHubert, HubertMismatchError, verified_hubert
from engines.ditto.onnx_model import OnnxModel
from engines.networks.ditto.hubert_encoder import HubertEncoder
from engines.weights.file import WeightsFileError
from kernels.errors import ShapeError

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning:torch.onnx"
    ),  # the exporter that public files were made with
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
SMALL = {
    "width": 64,
    "layers": 2,
    "heads": 4,
    "feed_forward": 96,
    "conv_width": 32,
    "position_kernel": 16,
    "position_groups": 4,
}


def small(context: int = 0, causal: bool = False) -> HubertEncoder:
    torch.manual_seed(4)
    module = HubertEncoder(**SMALL, context=context, causal=causal)
    for parameter in module.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape)
    return module.eval().requires_grad_(False)


def windows(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [(0.1 * generator.standard_normal(6480)).astype(np.float32) for _ in range(count)]


def test_its_shape_is_hubert_large_s() -> None:
    with torch.device("meta"):
        module = HubertEncoder()
    # 316.6 M in the whole public model without its head; its weight norm and mask embedding add 1 152 to ours
    assert 314e6 < sum(parameter.numel() for parameter in module.parameters()) < 317e6
    assert len(module.encoder.layers) == 24
    assert small()(torch.zeros(2, 6480)).shape == (2, 20, 64)
    with pytest.raises(ShapeError, match="samples"):
        small()(torch.zeros(6480))


def test_equal_tensors_that_the_exporter_stored_once_are_found(tmp_path: Path) -> None:
    """As in a file whose norms were never trained, or whose biases are all zero."""
    torch.manual_seed(4)
    module = HubertEncoder(**SMALL).eval().requires_grad_(False)
    path = export_encoder(module, tmp_path / "hubert.onnx")
    stored = {tensor.name for tensor in onnx.load(str(path)).graph.initializer}
    assert "encoder.layers.1.layer_norm.weight" not in stored
    read = read_hubert(path, **SMALL)
    [window] = windows(1)
    torch.testing.assert_close(read(torch.from_numpy(window)[None]), module(torch.from_numpy(window)[None]))


@pytest.mark.parametrize("context,causal", [(0, False), (7, False), (5, True)])
def test_weights_come_out_of_an_exported_file(tmp_path: Path, context: int, causal: bool) -> None:
    path = export_encoder(small(context, causal), tmp_path / "hubert.onnx")
    read = read_hubert(path, **SMALL)
    read.set_causal(causal)
    assert read.encoder.layers[0].attention.context_keys.shape == (4, context, 16)
    model = OnnxModel(path)
    for window in windows(2):
        want = model.run(window[None])[0]
        np.testing.assert_allclose(read(torch.from_numpy(window[None])).numpy(), want, atol=1e-4)


def test_an_outer_module_s_name_before_the_tensors_does_not_matter(tmp_path: Path) -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hubert = small()

        def forward(self, input_values: torch.Tensor) -> torch.Tensor:
            return self.hubert(input_values)[0]

    path = export_encoder(Outer(), tmp_path / "hubert.onnx")
    (window,) = windows(1)
    got = read_hubert(path, **SMALL)(torch.from_numpy(window[None]))[0]
    np.testing.assert_allclose(got.numpy(), OnnxModel(path).run(window[None])[0], atol=1e-4)


def test_a_normalised_weight_is_put_together(tmp_path: Path) -> None:
    module = small()
    path = export_encoder(module, tmp_path / "hubert.onnx")
    model = onnx.load(str(path))
    graph = OnnxGraph(path)
    key = "encoder.pos_conv_embed.conv.weight"
    weight = graph.array(key) if graph.named(key) else graph.beside_bias("encoder.pos_conv_embed.conv.bias")
    assert weight is not None
    size = np.linalg.norm(weight, axis=(0, 1), keepdims=True)
    for tensor in list(model.graph.initializer):
        if tensor.name == key:
            model.graph.initializer.remove(tensor)
    for name, value in (("weight_g", 2 * size), ("weight_v", 3 * weight)):
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), key[: -len("weight")] + name))
    onnx.save(model, str(path))
    got = read_hubert(path, **SMALL).encoder.pos_conv_embed.conv.weight
    np.testing.assert_allclose(got.numpy(), 2 * module.encoder.pos_conv_embed.conv.weight.numpy(), rtol=1e-5)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = export_encoder(small(), tmp_path / "hubert.onnx")
    model = onnx.load(str(path))
    name = "encoder.layers.1.final_layer_norm.weight"
    for tensor in list(model.graph.initializer):
        if tensor.name == name:
            model.graph.initializer.remove(tensor)
    onnx.save(model, str(path))
    with pytest.raises(WeightsFileError, match=f"{name}: is missing"):
        read_hubert(path, **SMALL)
    path = export_encoder(small(), tmp_path / "hubert.onnx")
    with pytest.raises(WeightsFileError, match=r"encoder.layers.2.*is missing"):
        read_hubert(path, **{**SMALL, "layers": 3})
    with pytest.raises(WeightsFileError, match=r"intermediate_dense.*has shape \(96, 64\)"):
        read_hubert(path, **{**SMALL, "feed_forward": 128})
    path.write_bytes(b"not an onnx file")
    with pytest.raises(WeightsFileError, match="no ONNX file"):
        read_hubert(path, **SMALL)


def test_the_mask_is_found_by_comparison_and_another_network_is_refused(tmp_path: Path) -> None:
    path = export_encoder(small(3, causal=True), tmp_path / "hubert.onnx")
    model = OnnxModel(path)

    def reference(given: list[np.ndarray]) -> list[np.ndarray]:
        return [model.run(window[None])[0][0] for window in given]

    way, graphed = verified_hubert(lambda: read_hubert(path, **SMALL), reference, "cpu", ["float32", "float32 causal"])
    assert way == "float32 causal"
    got, want = graphed.encode_all(windows(3)), reference(windows(3))
    np.testing.assert_allclose(np.stack(got), np.stack(want), atol=1e-4)
    assert graphed.encode_all([]) == []
    with pytest.raises(HubertMismatchError, match="relative errors"):
        verified_hubert(lambda: small(3), lambda given: [w + 1 for w in reference(given)], "cpu", ["float32"])


@pytest.mark.gpu
def test_sixteen_bits_on_a_gpu_and_sessions_share_a_batch() -> None:
    module = small(7)
    with torch.inference_mode():
        want = module(torch.from_numpy(np.stack(windows(5)))).numpy()
    graphed = GraphedHubert(module, "cuda")
    graphed.prepare()
    got = np.stack(graphed.encode_all(windows(5)))
    assert np.linalg.norm(got - want) / np.linalg.norm(want) < 1e-2
    one = graphed.encode_all(windows(5)[2:3])[0]
    assert np.linalg.norm(one - got[2]) / np.linalg.norm(one) < 1e-2
