"""Where avatars and results live: one group of settings, for the ingress, for `SessionHost` and for the stages that draw."""

from __future__ import annotations

from importlib.util import find_spec

from pydantic import Field, field_validator

from pipeline.config import Settings
from pipeline.media.results.files import OBJECT_STORES


class StoreSettings(Settings):
    """Where avatars, results and uploads live: a folder that all nodes mount, or an fsspec URI; LIVEANCHOR_HOME when empty.

    Results go to object stores (`pipeline.media.results.files.OBJECT_STORES`) through obstore, which fsspec is not needed for.
    """

    avatars: str = Field("", description="Avatar bundles.")
    results: str = Field("", description="Finished files of POST /api/generate and of video jobs.")
    uploads: str = Field("", description="Speech and portraits of video jobs, until those are made.")
    jobs: str = Field(
        "",
        description="Where video jobs are kept: redis:// and an address; empty for a file on the head node.",
    )
    results_links: bool = Field(
        False,
        description="Results in an object store: answer with a link into the store (307) in place of the file.",
    )
    results_max_bytes: int = Field(2 * 2**30, ge=2**20, description="Oldest results go first above this.")
    results_ttl_s: float = Field(3600.0, gt=0, description="A result can be fetched for this long.")

    @field_validator("results")
    @classmethod
    def _objects_can_be_reached(cls, uri: str) -> str:
        if not uri.startswith(OBJECT_STORES):
            return cls._can_be_opened(uri)
        if find_spec("obstore") is None:
            raise ValueError(f"{uri.partition('://')[0]}:// needs pip install 'liveanchor[objects]'")
        return uri

    @field_validator("avatars", "uploads")
    @classmethod
    def _can_be_opened(cls, uri: str) -> str:
        if "://" not in uri and "::" not in uri:
            return uri
        import fsspec

        for link in uri.split("::"):  # fsspec's chains, such as simplecache::s3://bucket/avatars
            try:
                fsspec.get_filesystem_class(link.partition("://")[0])
            except (ImportError, ValueError) as error:  # its package is not installed, or there is none
                raise ValueError(f"a folder, or a URI that fsspec can open here ({error})") from error
        return uri

    @field_validator("jobs")
    @classmethod
    def _is_redis(cls, url: str) -> str:
        if not url:
            return url
        if not url.startswith(("redis://", "rediss://")):
            raise ValueError("redis:// or rediss:// and an address, or empty")
        if find_spec("redis") is None:
            raise ValueError("redis:// needs pip install 'liveanchor[redis]'")
        return url
