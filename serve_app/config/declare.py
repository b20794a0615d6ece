"""The configuration as the document that Ray Serve is given: what `liveanchor serve` submits and `serve_config.yaml` spells out."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, Final

from deployments.config import DEPLOYMENT_NAMES, ROUTER, SCALING_POLICY, STAGE_NAMES
from pipeline.families import find_family
from serve_app.config.settings import AppConfig

APP_NAME = "liveanchor"
IMPORT_PATH = "serve_app.app:build_app"
HOSTS_PER_GPU: Final = 3
"""A GPU serves some 14 to 16 speaking sessions, a `SessionHost` process six."""


def with_gpu_shares(config: AppConfig, gpus: float = 1.0) -> AppConfig:
    """The same configuration with a GPU share for every stage that has none yet, and room for one set of stages per GPU."""
    most = math.floor(gpus)
    shares = find_family(config.models.family).gpu_shares
    stages = {
        name: one.model_copy(
            update={
                "num_gpus": one.num_gpus or shares[name],
                "max_replicas": max(most, one.max_replicas, one.min_replicas),
            }
        )
        for name, one in config.deployed().items()
        if name in shares
    }
    hosts = config.deployments.session_host
    stages["session_host"] = hosts.model_copy(update={"max_replicas": max(HOSTS_PER_GPU * most, hosts.max_replicas)})
    return config.model_copy(update={"deployments": config.deployments.model_copy(update=stages)})


def fit_to(config: AppConfig, gpus: float) -> AppConfig:
    """Shares of GPUs where the cluster has any, none where it has not."""
    if gpus > 0 and config.models.device != "cpu":
        return with_gpu_shares(config, gpus)
    return config.model_copy(update={"deployments": config.deployments.without_gpus()})


def serve_document(config: AppConfig, host: str, port: int, one_proxy: bool = False) -> dict[str, Any]:
    """The document, as plain values.

    Args:
        config: The application. Scaling and placement go to Ray Serve's own section, where a later change restarts nothing; the
            rest is the application's `args`.
        host: Address that HTTP listens on.
        port: Port that HTTP listens on.
        one_proxy: Whether only the head listens: the nodes of one machine would ask for the same port.
    """
    args = config.model_dump(mode="json", exclude_defaults=True, exclude={"deployments"})
    deployments = []
    for name, one in config.deployed().items():
        options = {"name": DEPLOYMENT_NAMES[name], **one.serve_options()}
        if name in STAGE_NAMES:
            options["request_router_config"] = {"request_router_class": ROUTER}
        deployments.append(options)
    return {
        "proxy_location": "HeadOnly" if one_proxy else "EveryNode",
        "http_options": {"host": host, "port": port},
        "logging_config": {"encoding": "JSON", "enable_access_log": True},
        "applications": [
            {
                "name": APP_NAME,
                "route_prefix": "/",
                "import_path": IMPORT_PATH,
                "autoscaling_policy": {"policy_function": SCALING_POLICY},
                "args": args,
                "deployments": deployments,
            }
        ],
    }


def write_document(document: dict[str, Any], folder: Path) -> Path:
    """Keep what was submitted, for people: `serve.yaml` in `folder`, atomically."""
    import yaml

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "serve.yaml"
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        yaml.safe_dump(document, file, sort_keys=False)
    Path(file.name).replace(target)
    return target
