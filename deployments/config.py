"""Typed settings of the deployments: what each replica gets, how many there are, how much each takes in at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from deployments.limits import LimitSettings
from deployments.stores import StoreSettings
from deployments.video_jobs.settings import VideoJobSettings
from engines.runtimes.kinds import RuntimeKind
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings, Settings
from pipeline.families import DEFAULT_FAMILY, family_modules
from pipeline.live.settings import LiveSettings, RtcSettings
from pipeline.media.signing import ProvenanceSettings
from pipeline.publish.settings import PublishSettings
from pipeline.talk.settings import AgentSettings
from pipeline.voices.settings import VoiceSettings


def _known_family(name: str) -> str:
    if name not in (known := family_modules()):
        raise ValueError(f"one of {', '.join(known)}")
    return name


FamilyName = Annotated[str, AfterValidator(_known_family)]
StageName = Literal["audio_features", "motion_diffusion", "renderer", "rife"]
STAGE_NAMES: tuple[StageName, ...] = ("audio_features", "motion_diffusion", "renderer", "rife")
DEPLOYMENT_NAMES = {
    "audio_features": "AudioFeatures",
    "motion_diffusion": "MotionDiffusion",
    "renderer": "Renderer",
    "rife": "Rife",
    "session_host": "SessionHost",
    "ingress": "Ingress",
}
"""Settings field -> name of the Ray Serve deployment."""

ROUTER = "deployments.graph.set_router:SetRouter"
SCALING_POLICY = "deployments.graph.scaling:whole_sets"
"""Autoscaling policy of the whole application, in YAML; `build_app` cannot name it."""


class BatchSettings(Settings):
    """How calls of several sessions share the model."""

    max_size: int = Field(1, ge=1, le=64, description="Chunks of different sessions per batch.")
    max_queued: int = Field(256, ge=1, le=100_000, description="Chunks that may wait in one replica.")
    gather_ms: float = Field(
        0.0, ge=0, le=100, description="How long a batch may wait for sessions that are due together, once four speak."
    )


class ModelSettings(Settings):
    """What a stage replica runs."""

    family: FamilyName = Field(
        DEFAULT_FAMILY, description="Which audio encoder, motion model and renderer, trained together."
    )
    weights_dir: Path | None = Field(None, description="Folder with the family's weights; null: the usual place.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: CUDA where the replica has a GPU share and torch finds the GPU."
    )
    threads: int = Field(
        1, ge=1, le=64, description="CPU threads per torch operation; 1 gives the same sums everywhere."
    )
    runtime: RuntimeKind = Field(
        "auto",
        description="How networks run. auto: the fastest way that gives eager torch's numbers on this GPU, measured at start; on "
        "the CPU eager. eager, compiled (own kernels under CUDA graphs) and tensorrt insist and refuse to start where they cannot.",
    )


class StageSettings(Settings):
    """What a replica of a stage is told."""

    model: ModelSettings = ModelSettings()
    batch: BatchSettings = BatchSettings()
    stuck_after_s: float = Field(60.0, gt=0, description="A batch that runs longer makes the replica unhealthy.")


class CompositingSettings(StageSettings):
    """What the stages share that put faces into canvases, and so need the avatars."""

    stores: StoreSettings = StoreSettings()
    cache_bytes: int = Field(ge=2**20, description="Bound on prepared faces kept in one replica.")


class RendererSettings(CompositingSettings):
    """The renderer's own settings."""

    sessions_per_gpu: int | None = Field(description="As `live.sessions_per_gpu`.")


class RifeStageSettings(CompositingSettings):
    """The interpolator's own settings."""

    rife: RifeSettings = RifeSettings()


class DeadlineSettings(Settings):
    """How long things may take before they count as lost."""

    stage_call_s: float = Field(
        60.0, gt=0, le=3600, description="One stage call of a file job, the start of a replacement replica included."
    )
    job_base_s: float = Field(120.0, gt=0, description="A file job may take this, plus the next line's share.")
    job_per_audio_s: float = Field(20.0, gt=0, description="Seconds that a file job may take per second of audio.")

    def job_s(self, audio_s: float) -> float:
        """What a file job of so much speech may take."""
        return self.job_base_s + audio_s * self.job_per_audio_s


class SessionHostSettings(Settings):
    """The groups that `SessionHost` reads."""

    models: ModelSettings = ModelSettings()
    stores: StoreSettings = StoreSettings()
    session: SessionSettings = SessionSettings()
    live: LiveSettings = LiveSettings()
    rtc: RtcSettings = RtcSettings()
    publish: PublishSettings = PublishSettings()
    encoder: EncoderSettings = EncoderSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    limits: LimitSettings = LimitSettings()
    jobs: VideoJobSettings = VideoJobSettings()
    voices: VoiceSettings = VoiceSettings()
    agent: AgentSettings = AgentSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()


class DeploymentSettings(Settings):
    """Placement and scaling of one deployment; becomes Ray Serve's own options."""

    num_cpus: float = Field(0.1, ge=0, le=256, description="CPUs reserved per replica (bookkeeping, not isolation).")
    num_gpus: float = Field(
        0.0, ge=0, le=16, description="GPU share reserved per replica; it caps the replica's memory."
    )
    min_replicas: int = Field(1, ge=0, le=1000)
    max_replicas: int = Field(1, ge=1, le=1000)
    target_ongoing_requests: float = Field(2.0, gt=0, description="Calls per replica that autoscaling aims at.")
    max_ongoing_requests: int = Field(64, ge=1, description="Calls that one replica takes in at once.")
    max_queued_requests: int = Field(
        512, ge=1, description="Calls that wait for a replica before 503; above any burst."
    )
    retry_after_s: float = Field(5.0, gt=0, description="What a 503 tells the caller to wait.")
    upscale_delay_s: float = Field(5.0, ge=0)
    downscale_delay_s: float = Field(120.0, ge=0)
    look_back_period_s: float = Field(
        15.0, gt=0, description="Load is averaged over this; more than Ray's 10 s of reporting."
    )
    graceful_shutdown_timeout_s: float = Field(60.0, ge=0, description="As long as the longest session promised.")
    max_surge_percent: int = Field(
        0,
        ge=0,
        le=100,
        description="New replicas that start before old ones stop at a change of code or settings, in percent of the replicas.",
    )
    health_check_period_s: float = Field(10.0, gt=0)
    health_check_timeout_s: float = Field(30.0, gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"min_replicas ({self.min_replicas}) must not exceed max_replicas ({self.max_replicas})")
        if self.num_gpus > 1 and self.num_gpus != int(self.num_gpus):
            raise ValueError(f"num_gpus ({self.num_gpus}) above 1 must be a whole number")
        return self

    def serve_options(self) -> dict[str, Any]:
        """As Ray Serve spells them, in a deployment's options and in YAML alike."""
        per_node = {"max_replicas_per_node": 1} if self.num_gpus > 0 else {}  # a node has one GPU, a GPU one set
        return {
            "ray_actor_options": {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus},
            "autoscaling_config": {
                "min_replicas": self.min_replicas,
                "max_replicas": self.max_replicas,
                "target_ongoing_requests": self.target_ongoing_requests,
                "upscale_delay_s": self.upscale_delay_s,
                "downscale_delay_s": self.downscale_delay_s,
                "look_back_period_s": self.look_back_period_s,
            },
            **per_node,
            "max_ongoing_requests": self.max_ongoing_requests,
            "max_queued_requests": self.max_queued_requests,
            "backpressure_config": {"status_code": 503, "retry_after_s": self.retry_after_s},
            "graceful_shutdown_timeout_s": self.graceful_shutdown_timeout_s,
            "max_surge_percent": self.max_surge_percent,
            "health_check_period_s": self.health_check_period_s,
            "health_check_timeout_s": self.health_check_timeout_s,
        }
