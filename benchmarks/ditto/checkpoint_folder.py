"""Fake Ditto checkpoint folders: the layout and signatures of the public ones, weights from the documented formula."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.ditto.checkpoints import HUBERT_FILE, NETWORK_FILES
from engines.ditto.hubert.onnx import WINDOW_SAMPLES


def checkpoint(name: str, state: dict[str, Tensor]) -> dict[str, Any]:
    """What the public file of a network holds."""
    if name == "stitch_network":
        return {"retarget_shoulder": {f"module.{key}": value for key, value in state.items()}, "retarget_mouth": {}}
    if name == "lmdm":
        return {"model_state_dict": state}
    return dict(state)


def write_network(folder: Path, name: str, state: dict[str, Tensor] | None = None) -> Path:
    """Write one network's file; its weights come from the formula unless given."""
    path = folder / NETWORK_FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint(name, filled(name).state_dict() if state is None else state), path)
    return path


def write_hubert(folder: Path, *, free_batch: bool = False, name: str = "input_values") -> Path:
    """An encoder with the public file's signature: (1, 6480) -> (20, 1024), one convolution of 400 samples every 320."""
    kernel = FILL.normal("fake_hubert/weight", (1024, 1, 400), SALT, 0.2)
    batch = "batch" if free_batch else 1
    nodes = [
        helper.make_node("Unsqueeze", [name, "axis"], ["wave"]),
        helper.make_node("Conv", ["wave", "weight"], ["channels"], strides=[320]),
        helper.make_node("Tanh", ["channels"], ["bounded"]),
        helper.make_node("Transpose", ["bounded"], ["rows"], perm=[0, 2, 1]),
    ]
    if free_batch:
        nodes[-1].output[0] = "encoding_out"
        shape: list[Any] = ["batch", 20, 1024]
    else:
        nodes.append(helper.make_node("Squeeze", ["rows", "first"], ["encoding_out"]))
        shape = [20, 1024]
    constants = {
        "weight": kernel.astype(np.float32),
        "axis": np.array([1], np.int64),
        "first": np.array([0], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "hubert",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 6480])],
        [helper.make_tensor_value_info("encoding_out", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / HUBERT_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def export_encoder(module: torch.nn.Module, path: Path) -> Path:
    """An encoder as an ONNX file with the public one's signature: `input_values` (1, 6480) -> `encoding_out`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # the exporter that public files were made with says that there is a newer one
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval().requires_grad_(False),
            (torch.zeros(1, WINDOW_SAMPLES),),
            str(path),
            input_names=["input_values"],
            output_names=["encoding_out"],
            opset_version=17,
            dynamo=False,
        )
    return path


def write_config(folder: Path, mode: str, kwargs: dict[str, Any]) -> Path:
    """A configuration pickle as the public ones are laid out."""
    name = "v0.4_hubert_cfg_trt_online.pkl" if mode == "online" else "v0.4_hubert_cfg_pytorch.pkl"
    path = folder / "ditto_cfg" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({"base_cfg": {}, "audio2motion_cfg": {}, "default_kwargs": kwargs}, 4))
    return path


def write_folder(folder: Path, steps: int) -> None:
    """The whole public layout, 0.7 GB: every network under the formula, an encoder, both configurations."""
    for name in NETWORK_FILES:
        write_network(folder, name)
    write_hubert(folder)
    online = {"online_mode": True, "overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": [0, 202], "emo": [[4]]}
    blink = np.zeros((15, 63), np.float32)
    write_config(folder, "online", {**online, "sampling_timesteps": steps, "delta_eye_arr": blink})
    write_config(folder, "offline", {"sampling_timesteps": steps, "emo": 4})
