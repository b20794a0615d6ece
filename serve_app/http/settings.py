"""What the HTTP application needs to know."""

from __future__ import annotations

from pydantic import Field

from deployments.limits import ConsentSettings, LimitSettings
from deployments.stores import StoreSettings
from deployments.video_jobs.settings import VideoJobSettings
from pipeline.config import SessionSettings, Settings
from pipeline.families import DEFAULT_FAMILY
from pipeline.fetch.settings import FetchSettings
from pipeline.live.settings import LiveSettings, RtcSettings
from pipeline.publish.settings import PublishSettings
from serve_app.access.settings import KeySettings, QuotaSettings
from serve_app.http.body.pieces import BodyLimits


class HttpSettings(Settings):
    """How the service shows itself to browsers."""

    cors_origins: tuple[str, ...] = Field(
        (),
        description="Origins (https://news.example) whose pages may call this service; none by default, `*` for all.",
    )


class ApiSettings(Settings):
    """The groups that the ingress reads, composed by `serve_app.config.settings.AppConfig.ingress`."""

    session: SessionSettings = SessionSettings()
    live: LiveSettings = LiveSettings()
    rtc: RtcSettings = RtcSettings()
    publish: PublishSettings = PublishSettings()
    limits: LimitSettings = LimitSettings()
    consent: ConsentSettings = ConsentSettings()
    stores: StoreSettings = StoreSettings()
    jobs: VideoJobSettings = VideoJobSettings()
    http: HttpSettings = HttpSettings()
    family: str = Field(DEFAULT_FAMILY, description="Which family of models makes the videos.")
    keys: KeySettings = KeySettings()
    quotas: QuotaSettings = QuotaSettings()
    fetch: FetchSettings = FetchSettings()
    proxy_echoes_request_id: bool = Field(
        False, description="The proxy in front puts X-Request-Id into the answer itself, so the application must not."
    )
    listens_elsewhere: bool = Field(
        False, description="Other machines reach the service; the ingress finds out, see serve_app.http.listening."
    )

    def body(self, max_bytes: int) -> BodyLimits:
        """Limits of one kind of body."""
        limits = self.limits
        return BodyLimits(max_bytes, limits.upload_idle_s, limits.upload_s, limits.upload_min_bytes_per_s)
