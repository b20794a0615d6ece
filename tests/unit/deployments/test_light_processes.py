"""Each process of the cluster imports what it uses: a controller without torch is back seconds earlier, an ingress half as big."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytest.importorskip("ray.serve")

NETWORKS = {"torch", "triton", "onnxruntime", "mediapipe", "scipy", "cv2"}
MEDIA = {"av", "aiortc", "PIL", "httpx", "fsspec", "mediapipe", "scipy", "onnxruntime"}


@pytest.mark.parametrize(
    ("modules", "forbidden"),
    [
        (("deployments.graph.scaling", "deployments.graph.set_router"), NETWORKS | MEDIA),
        (("serve_app.http.ingress",), NETWORKS),
        (
            (
                "deployments.graph.audio_features",
                "deployments.graph.motion_diffusion",
                "deployments.graph.renderer",
                "deployments.graph.rife",
                "pipeline.mini.family",
            ),
            MEDIA,
        ),
    ],
    ids=["the controller, and whoever calls a stage", "Ingress", "the stages"],
)
def test_a_process_imports_what_it_uses(modules: tuple[str, ...], forbidden: set[str]) -> None:
    code = f"import sys, ray.serve, {', '.join(modules)}; print(sorted({forbidden!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines()[-1] == "[]"
