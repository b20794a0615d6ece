"""The application's whole configuration, typed. YAML goes in, environment variables win, anything unknown is refused by name.

An environment variable is `LIVEANCHOR_` and the path of a setting joined by `__`: `LIVEANCHOR_LIMITS__MAX_AUDIO_S=120`. A JSON
value sets a whole group. Variables are read where the application is built, that is on the cluster's head node.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from deployments.config import (
    STAGE_NAMES,
    BatchSettings,
    DeadlineSettings,
    DeploymentSettings,
    ModelSettings,
    RendererSettings,
    RifeStageSettings,
    SessionHostSettings,
    StageName,
    StageSettings,
)
from deployments.limits import ConsentSettings, LimitSettings
from deployments.stores import StoreSettings
from deployments.video_jobs.settings import VideoJobSettings
from kernels.errors import InvalidInputError
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings, Settings
from pipeline.families import find_family
from pipeline.family import ALL_STAGES
from pipeline.fetch.settings import FetchSettings
from pipeline.live.settings import LiveSettings, RtcSettings
from pipeline.media.signing import ProvenanceSettings
from pipeline.publish.settings import PublishSettings
from pipeline.talk.settings import AgentSettings
from pipeline.voices.settings import VoiceSettings
from serve_app.access.settings import KeySettings, QuotaSettings
from serve_app.config.errors import ENV_PREFIX, NESTED, misspelt_variable, no_yaml, refusal
from serve_app.http.settings import ApiSettings, HttpSettings


class BatchesSettings(Settings):
    """Batching per stage."""

    audio_features: BatchSettings = BatchSettings(max_size=8)
    motion_diffusion: BatchSettings = BatchSettings(max_size=8)
    renderer: BatchSettings = BatchSettings(max_size=1)
    rife: BatchSettings = BatchSettings(max_size=4)


class DeploymentsSettings(Settings):
    """Placement and scaling per deployment. The defaults fit two CPU cores; `serve_config.yaml` has the ones for GPUs.

    Ray Serve's own `deployments:` section in YAML overrides these without restarting replicas.
    """

    ingress: DeploymentSettings = DeploymentSettings(
        num_cpus=0.1,
        max_replicas=2,
        target_ongoing_requests=32,
        max_ongoing_requests=256,
        graceful_shutdown_timeout_s=3660.0,
        max_surge_percent=100,
        health_check_period_s=2.0,
    )
    session_host: DeploymentSettings = DeploymentSettings(
        num_cpus=0.2,
        max_replicas=2,
        target_ongoing_requests=4,
        max_ongoing_requests=48,
        graceful_shutdown_timeout_s=3660.0,
        max_surge_percent=100,
        health_check_period_s=2.0,
    )
    audio_features: DeploymentSettings = DeploymentSettings(
        num_cpus=0.1, max_replicas=2, target_ongoing_requests=8, health_check_period_s=1.0
    )
    motion_diffusion: DeploymentSettings = DeploymentSettings(
        num_cpus=0.2, max_replicas=2, target_ongoing_requests=4, health_check_period_s=1.0
    )
    renderer: DeploymentSettings = DeploymentSettings(
        num_cpus=0.3, max_replicas=2, target_ongoing_requests=6, health_check_period_s=1.0
    )
    rife: DeploymentSettings = DeploymentSettings(num_cpus=0.1, min_replicas=0, health_check_period_s=1.0)

    def by_name(self) -> dict[str, DeploymentSettings]:
        """Settings field -> settings, in the order of the flow."""
        names = ("ingress", "session_host", *STAGE_NAMES)
        return {name: getattr(self, name) for name in names}

    def without_gpus(self) -> Self:
        """The same with every GPU share set to 0."""
        return self.model_copy(
            update={name: one.model_copy(update={"num_gpus": 0.0}) for name, one in self.by_name().items()}
        )

    @model_validator(mode="after")
    def _fit_one_gpu(self) -> Self:
        shares = {name: one.num_gpus * one.min_replicas for name, one in self.by_name().items() if one.num_gpus < 1}
        total = sum(shares.values())
        if total > 1.0 + 1e-9:
            parts = " + ".join(f"{name} {share:g}" for name, share in shares.items() if share)
            raise ValueError(
                f"GPU shares at min replicas must sum to at most 1.0 so that the graph starts on one GPU: {parts} = {total:g}"
            )
        return self


class AppConfig(BaseSettings):
    """Everything that `build_app` takes."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter=NESTED, env_parse_none_str="null"
    )

    models: ModelSettings = ModelSettings()
    session: SessionSettings = SessionSettings()
    rife: RifeSettings = RifeSettings()
    encoder: EncoderSettings = EncoderSettings()
    live: LiveSettings = LiveSettings()
    rtc: RtcSettings = RtcSettings()
    publish: PublishSettings = PublishSettings()
    voices: VoiceSettings = VoiceSettings()
    agent: AgentSettings = AgentSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()
    limits: LimitSettings = LimitSettings()
    consent: ConsentSettings = ConsentSettings()
    stores: StoreSettings = StoreSettings()
    jobs: VideoJobSettings = VideoJobSettings()
    http: HttpSettings = HttpSettings()
    keys: KeySettings = KeySettings()
    quotas: QuotaSettings = QuotaSettings()
    fetch: FetchSettings = FetchSettings()
    batches: BatchesSettings = BatchesSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    renderer_cache_bytes: int = Field(512 * 2**20, ge=2**20, description="Prepared faces kept per renderer replica.")
    deployments: DeploymentsSettings = DeploymentsSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment before YAML; no files are read."""
        return (env_settings, init_settings)

    @model_validator(mode="after")
    def _no_misspelt_variables(self) -> Self:
        for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
            setting = name.removeprefix(ENV_PREFIX).lower()
            head, nested, _ = setting.partition(NESTED)
            if nested and head not in type(self).model_fields:
                raise misspelt_variable(name, type(self).model_fields)
            if not nested and (meant := self._with_two_underscores(setting)):
                raise misspelt_variable(name, type(self).model_fields, meant)
        return self

    def _with_two_underscores(self, setting: str) -> str:
        """The variable that was meant by one with a single underscore behind its group; empty for any other name."""
        for group in type(self).model_fields:
            own = getattr(type(getattr(self, group)), "model_fields", {})
            rest = setting.removeprefix(f"{group}_")
            if rest != setting and rest in own:
                return f"{ENV_PREFIX}{group}{NESTED}{rest}".upper()
        return ""

    def deployed(self) -> dict[str, DeploymentSettings]:
        """The deployments that there are, in the order of the flow: stages that the family lacks are not among them."""
        neural = find_family(self.models.family).stages
        lacking = set(ALL_STAGES) - set(neural)
        return {name: one for name, one in self.deployments.by_name().items() if name not in lacking}

    def stage(self, name: StageName) -> StageSettings:
        """A stage's own settings."""
        batch: BatchSettings = getattr(self.batches, name)
        if name == "renderer":
            return RendererSettings(
                model=self.models,
                batch=batch,
                stores=self.stores,
                cache_bytes=self.renderer_cache_bytes,
                sessions_per_gpu=self.live.sessions_per_gpu,
            )
        if name == "rife":
            return RifeStageSettings(
                model=self.models,
                batch=batch,
                stores=self.stores,
                cache_bytes=self.renderer_cache_bytes,
                rife=self.rife,
            )
        return StageSettings(model=self.models, batch=batch)

    def session_host(self) -> SessionHostSettings:
        """The session host's own groups."""
        return SessionHostSettings(
            models=self.models,
            stores=self.stores,
            session=self.session,
            live=self.live,
            rtc=self.rtc,
            publish=self.publish,
            encoder=self.encoder,
            deadlines=self.deadlines,
            limits=self.limits,
            jobs=self.jobs,
            voices=self.voices,
            agent=self.agent,
            provenance=self.provenance,
        )

    def ingress(self) -> ApiSettings:
        """The ingress's own groups."""
        return ApiSettings(
            session=self.session,
            live=self.live,
            rtc=self.rtc,
            publish=self.publish,
            limits=self.limits,
            consent=self.consent,
            stores=self.stores,
            jobs=self.jobs,
            family=self.models.family,
            http=self.http,
            keys=self.keys,
            quotas=self.quotas,
            fetch=self.fetch,
        )


def load_config(path: Path | None = None) -> AppConfig:
    """Read settings from YAML, with environment variables on top.

    Args:
        path: A YAML file whose top level are AppConfig's fields, not one for `serve deploy`; None for defaults.

    Raises:
        InvalidInputError: Not YAML, or a setting or variable is unknown, unreadable or out of range; the message names it.
    """
    values: object = {}
    if path is not None:
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise no_yaml(path, error) from error
        if not isinstance(values, dict):
            raise InvalidInputError("config", repr(values)[:200], "YAML whose top level are groups of settings")
        if strange := [key for key in values if not isinstance(key, str)]:
            raise InvalidInputError(
                str(strange[0]), "a setting of that name", ", ".join(sorted(AppConfig.model_fields))
            )
        if ray_serve := [key for key in ("applications", "args") if key in values]:
            allowed = (
                "the settings alone, as serve_config.yaml has them under args:; the whole file is for `serve deploy`"
            )
            raise InvalidInputError(ray_serve[0], "a file for Ray Serve", allowed)
    try:
        return AppConfig.model_validate(values)
    except ValidationError as error:
        raise refusal(error, AppConfig) from error
