"""`build_app`: validated configuration in, bound graph out. The one entry of `serve run`, `serve deploy` and `liveanchor serve`."""

# No `from __future__ import annotations` here: Ray Serve reads the annotation of `build_app` as a class to validate YAML with.

from typing import Any

from ray import serve
from ray.serve import Application

from deployments.config import DEPLOYMENT_NAMES, ROUTER, STAGE_NAMES
from deployments.graph.audio_features import AudioFeaturesReplica
from deployments.graph.motion_diffusion import MotionDiffusionReplica
from deployments.graph.renderer import RendererReplica
from deployments.graph.rife import RifeReplica
from deployments.host.session_host import SessionHostReplica
from serve_app.config.settings import AppConfig
from serve_app.http.ingress import IngressReplica


def build_app(args: AppConfig) -> Application:
    """Bind the graph: `Ingress` -> `SessionHost` -> the stages of the family and `Rife`. Each receives only its own settings."""
    there = args.deployed()

    def bind(name: str, replica: type[Any], *bound: object) -> Application:
        options = there[name].serve_options()
        if name in STAGE_NAMES:
            options["request_router_config"] = {"request_router_class": ROUTER}
        deployment: Any = serve.deployment(name=DEPLOYMENT_NAMES[name], **options)(replica)
        application: Application = deployment.bind(*bound)
        return application

    host = bind(
        "session_host",
        SessionHostReplica,
        bind("audio_features", AudioFeaturesReplica, args.stage("audio_features")),
        bind("motion_diffusion", MotionDiffusionReplica, args.stage("motion_diffusion"))
        if "motion_diffusion" in there
        else None,
        bind("renderer", RendererReplica, args.stage("renderer")),
        bind("rife", RifeReplica, args.stage("rife")),
        args.session_host(),
    )
    return bind("ingress", IngressReplica, host, args.ingress())
