"""A library that we run tells nobody that it runs, and writes nothing of that to the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SESSION = """
import kernels, numpy, onnxruntime
from onnx import TensorProto, helper
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Add", ["a", "a"], ["b"])], "twice", [value("a")], [value("b")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString())
print(session.run(None, {"a": numpy.ones(1, numpy.float32)})[0][0])
"""


def test_onnxruntime_keeps_no_record_of_its_use(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    environment = {
        name: text for name, text in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environment | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "2.0", done.stderr
    assert not list(tmp_path.rglob("*onnxruntime*"))
