"""The application's whole configuration, typed. YAML goes in, environment variables win, anything unknown is refused by name.

An environment variable is `LIVEANCHOR_` and the path of a setting joined by `__`: `LIVEANCHOR_LIMITS__MAX_AUDIO_S=120`. A JSON
value sets a whole group. Variables are read where the application is built, that is on the cluster's head node.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from deployments.config import (
    STAGE_NAMES,
    BatchSettings,
    DeadlineSettings,
    DeploymentSettings,
    ModelSettings,
    PortraitSettings,
    RendererSettings,
    RifeStageSettings,
    SessionHostSettings,
    StageName,
    StageSettings,
)
from kernels.errors import InvalidInputError
from pipeline.avatars.store import IN_USE_S
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings, Settings
from pipeline.live.settings import LiveSettings, RtcSettings
from serve_app.config.errors import ENV_PREFIX, NESTED, misspelt_variable, no_yaml, refusal
from serve_app.http.settings import ApiSettings

MIN_AVATAR_TTL_S = 2 * IN_USE_S


class LimitSettings(Settings):
    """What callers may ask for."""

    max_upload_bytes: int = Field(256 * 2**20, ge=1, le=4 * 2**30, description="Largest request body.")
    max_json_bytes: int = Field(32 * 2**20, ge=1, le=2**30, description="Largest request body in JSON with base64.")
    max_buffered_bytes: int = Field(
        512 * 2**20, ge=1, description="Uploads in memory at once, per ingress replica; more get 503."
    )
    max_portrait_bytes: int = Field(25 * 2**20, ge=1, le=2**30, description="Largest portrait picture.")
    max_portrait_pixels: int = Field(50_000_000, ge=2**14, le=2**30, description="Most pixels of a portrait picture.")
    max_audio_s: float = Field(600.0, gt=0, le=36_000, description="Longest speech of one job.")
    max_avatars: int = Field(
        1000, ge=1, le=1_000_000, description="Presenters in the store; then temporary ones go, else one more gets 507."
    )
    max_avatars_bytes: int = Field(
        16 * 2**30, ge=2**20, description="Bytes of all presenters; then temporary ones go, else one more gets 507."
    )
    temporary_avatar_ttl_s: float = Field(
        24 * 3600.0,
        ge=0,
        le=366 * 24 * 3600.0,
        description="Seconds without use after which a presenter that a job made of its portrait goes; 0: never.",
    )
    upload_idle_s: float = Field(30.0, gt=0, le=3600, description="Longest pause of an upload; then 408.")
    upload_s: float = Field(600.0, gt=0, le=36_000, description="Longest time for one upload; then 408.")
    stall_s: float = Field(120.0, gt=0, le=3600, description="A client that takes nothing for so long counts as gone.")
    max_jobs: int = Field(16, ge=1, le=10_000, description="File jobs at once, per ingress replica; more get 503.")
    retry_after_s: float = Field(5.0, gt=0, le=3600, description="Retry-After of a 503.")

    @field_validator("temporary_avatar_ttl_s")
    @classmethod
    def _outlasts_its_use(cls, seconds: float) -> float:
        if 0 < seconds < MIN_AVATAR_TTL_S:
            raise ValueError(f"0 (never), or at least {MIN_AVATAR_TTL_S:g}: less may pass while one is used")
        return seconds

    @model_validator(mode="after")
    def _one_upload_fits(self) -> Self:
        if self.max_buffered_bytes < max(self.max_upload_bytes, self.max_json_bytes):
            raise ValueError("max_buffered_bytes must hold one upload: at least max_upload_bytes and max_json_bytes")
        return self


class StoreSettings(Settings):
    """Where avatars and results live: a folder that all nodes mount, or an fsspec URI; LIVEANCHOR_HOME when empty."""

    avatars: str = Field("", description="Avatar bundles.")
    results: str = Field("", description="Finished files of POST /api/generate.")
    results_max_bytes: int = Field(2 * 2**30, ge=2**20, description="Oldest results go first above this.")
    results_ttl_s: float = Field(3600.0, gt=0, description="A result can be fetched for this long.")

    @field_validator("avatars", "results")
    @classmethod
    def _can_be_opened(cls, uri: str) -> str:
        if "://" not in uri and "::" not in uri:
            return uri
        import fsspec

        for link in uri.split("::"):  # fsspec's chains, such as simplecache::s3://bucket/avatars
            try:
                fsspec.get_filesystem_class(link.partition("://")[0])
            except (ImportError, ValueError) as error:  # its package is not installed; nobody knows it
                raise ValueError(f"a folder, or a URI that fsspec can open here ({error})") from error
        return uri


class HttpSettings(Settings):
    """How the service shows itself to browsers."""

    cors_origins: tuple[str, ...] = Field(
        (),
        description="Origins (https://news.example) whose pages may call this service; none by default, `*` for all.",
    )


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
    )
    session_host: DeploymentSettings = DeploymentSettings(
        num_cpus=0.2,
        max_replicas=2,
        target_ongoing_requests=4,
        max_ongoing_requests=48,
        graceful_shutdown_timeout_s=3660.0,
        max_surge_percent=100,
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
    limits: LimitSettings = LimitSettings()
    stores: StoreSettings = StoreSettings()
    http: HttpSettings = HttpSettings()
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

    def stage(self, name: StageName) -> StageSettings:
        """A stage's own settings."""
        batch: BatchSettings = getattr(self.batches, name)
        if name == "renderer":
            return RendererSettings(
                model=self.models, batch=batch, avatars=self.stores.avatars, cache_bytes=self.renderer_cache_bytes
            )
        if name == "rife":
            return RifeStageSettings(
                model=self.models,
                batch=batch,
                avatars=self.stores.avatars,
                cache_bytes=self.renderer_cache_bytes,
                rife=self.rife,
            )
        return StageSettings(model=self.models, batch=batch)

    def session_host(self) -> SessionHostSettings:
        """The session host's own settings."""
        return SessionHostSettings(
            family=self.models.family,
            weights_dir=self.models.weights_dir,
            avatars=self.stores.avatars,
            session=self.session,
            live=self.live,
            rtc=self.rtc,
            encoder=self.encoder,
            deadlines=self.deadlines,
            max_audio_s=self.limits.max_audio_s,
            max_upload_bytes=self.limits.max_upload_bytes,
            portrait=PortraitSettings(
                max_bytes=self.limits.max_portrait_bytes, max_pixels=self.limits.max_portrait_pixels
            ),
            temporary_avatar_ttl_s=self.limits.temporary_avatar_ttl_s,
        )

    def ingress(self) -> ApiSettings:
        """The ingress's own settings."""
        return ApiSettings(
            session=self.session,
            rtc=self.rtc,
            max_upload_bytes=self.limits.max_upload_bytes,
            max_json_bytes=self.limits.max_json_bytes,
            max_buffered_bytes=self.limits.max_buffered_bytes,
            max_avatars=self.limits.max_avatars,
            max_avatars_bytes=self.limits.max_avatars_bytes,
            temporary_avatar_ttl_s=self.limits.temporary_avatar_ttl_s,
            upload_idle_s=self.limits.upload_idle_s,
            upload_s=self.limits.upload_s,
            stall_s=self.limits.stall_s,
            max_audio_s=self.limits.max_audio_s,
            max_jobs=self.limits.max_jobs,
            retry_after_s=self.limits.retry_after_s,
            results=self.stores.results,
            results_max_bytes=self.stores.results_max_bytes,
            results_ttl_s=self.stores.results_ttl_s,
            cors_origins=self.http.cors_origins,
            stats_ids=self.live.stats_ids,
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
