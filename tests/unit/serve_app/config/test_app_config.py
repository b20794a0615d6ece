"""AppConfig: refusals by name, environment overrides, what each deployment receives; Ray Serve really validates with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

pytest.importorskip("ray.serve")

from deployments.config import ROUTER, DeploymentSettings, RendererSettings
from kernels.errors import InvalidInputError
from serve_app.config.declare import fit_to, with_gpu_shares
from serve_app.config.settings import AppConfig, load_config


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("LIVEANCHOR_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"limts": {}}, "limts"),
        ({"limits": {"max_audio": 3}}, "limits.max_audio"),
        ({"limits": {"max_audio_s": -1}}, "limits.max_audio_s"),
        ({"models": {"family": "ditto2"}}, "models.family"),
        ({"session": {"chunk_frames": 5}}, "session.chunk_frames"),
        ({"batches": {"renderer": {"max_size": 0}}}, "batches.renderer.max_size"),
        ({"deployments": {"renderer": {"num_gpu": 1}}}, "deployments.renderer.num_gpu"),
        ({"models": {"family": "wav2lip"}}, "models.family"),
        ({"encoder": {"file_crf": 99}}, "encoder.file_crf"),
    ],
)
def test_what_is_unknown_or_out_of_range_is_refused_by_name(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AppConfig.model_validate(values)
    assert ".".join(str(part) for part in refused.value.errors()[0]["loc"]) == named


@pytest.mark.parametrize("seconds", [0, 360, 86_400])
def test_how_long_temporary_presenters_stay(seconds: int) -> None:
    config = AppConfig.model_validate({"limits": {"temporary_avatar_ttl_s": seconds}})
    assert (
        config.ingress().limits.temporary_avatar_ttl_s == config.session_host().limits.temporary_avatar_ttl_s == seconds
    )


@pytest.mark.parametrize("seconds", [60, -1, 1e12])
def test_temporary_presenters_outlast_the_pauses_of_those_who_use_them(tmp_path: Path, seconds: float) -> None:
    (tmp_path / "config.yaml").write_text(f"limits: {{temporary_avatar_ttl_s: {seconds}}}")
    with pytest.raises(InvalidInputError, match="360" if seconds == 60 else "limits.temporary_avatar_ttl_s") as refused:
        load_config(tmp_path / "config.yaml")
    assert refused.value.field == "limits.temporary_avatar_ttl_s"


def test_environment_wins_over_yaml_setting_by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_LIMITS__MAX_AUDIO_S", "7")
    config = AppConfig.model_validate({"limits": {"max_audio_s": 3, "max_jobs": 2}})
    assert config.limits.max_audio_s == 7 and config.limits.max_jobs == 2


def test_a_misspelt_variable_is_refused_and_unrelated_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", "/somewhere")
    monkeypatch.setenv("LIVEANCHOR_URL", "http://example.org")
    AppConfig.model_validate({})
    monkeypatch.setenv("LIVEANCHOR_LIMTS__MAX_AUDIO_S", "7")
    with pytest.raises(ValidationError, match="LIVEANCHOR_LIMTS__MAX_AUDIO_S"):
        AppConfig.model_validate({})
    monkeypatch.delenv("LIVEANCHOR_LIMTS__MAX_AUDIO_S")
    monkeypatch.setenv("LIVEANCHOR_LIMITS__MAX_AUDO_S", "7")
    with pytest.raises(ValidationError, match="max_audo_s"):
        AppConfig.model_validate({})


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("LIVEANCHOR_HTTP__CORS_ORIGINS", "https://news.example", "LIVEANCHOR_HTTP__CORS_ORIGINS"),
        ("LIVEANCHOR_LIMITS", "max_audio_s=3", "LIVEANCHOR_LIMITS"),
        ("LIVEANCHOR_LIMITS__MAX_AUDIO_S", "long", "limits.max_audio_s"),
        ("LIVEANCHOR_LIMITS__MAX_AUDIO_S", "-3", "limits.max_audio_s"),
        ("LIVEANCHOR_LIMITS", "[1]", "limits"),
        ("LIVEANCHOR_RENDERER_CACHE_BYTES", "many", "renderer_cache_bytes"),
        ("LIVEANCHOR_MODELS__FAMILY", "maxi", "models.family"),
        ("LIVEANCHOR_STORES__RESULTS", "nowhere://bucket/results", "stores.results"),
        ("LIVEANCHOR_STORES__AVATARS", "adl://needs/a/package", "stores.avatars"),
        ("LIVEANCHOR_STORES__AVATARS", "simplecache::nowhere://bucket", "stores.avatars"),
        ("LIVEANCHOR_STORES__AVATARS", "nocache::memory://bucket", "stores.avatars"),
    ],
)
def test_variables_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, field: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInputError) as refused:
        load_config()
    assert refused.value.field == field and refused.value.allowed


def test_one_underscore_behind_a_group_is_a_misspelling(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIVEANCHOR_SERVE_SVC_PORT", "LIVEANCHOR_HTTP_PORT", "LIVEANCHOR_LIMITS_SERVICE_HOST"):
        monkeypatch.setenv(name, "tcp://10.0.0.1:8000")  # Kubernetes names services like this
    load_config()
    monkeypatch.setenv("LIVEANCHOR_LIMITS_MAX_AUDIO_S", "7")
    with pytest.raises(InvalidInputError, match="LIVEANCHOR_LIMITS_MAX_AUDIO_S.*LIVEANCHOR_LIMITS__MAX_AUDIO_S"):
        load_config()


def test_gpu_shares_must_fit_one_gpu() -> None:
    with pytest.raises(ValidationError, match="audio_features 0.6 \\+ renderer 0.6 = 1.2"):
        AppConfig.model_validate({"deployments": {"audio_features": {"num_gpus": 0.6}, "renderer": {"num_gpus": 0.6}}})
    with pytest.raises(ValidationError, match="whole number"):
        DeploymentSettings(num_gpus=1.5)
    with pytest.raises(ValidationError, match="min_replicas"):
        DeploymentSettings(min_replicas=3, max_replicas=2)


def test_shares_appear_with_gpus_and_vanish_without() -> None:
    shared = with_gpu_shares(AppConfig())
    assert shared.deployments.renderer.num_gpus == 0.4 and shared.deployments.ingress.num_gpus == 0
    assert fit_to(shared, 0).deployments.renderer.num_gpus == 0
    assert fit_to(AppConfig.model_validate({"models": {"device": "cpu"}}), 8).deployments.renderer.num_gpus == 0
    own = AppConfig.model_validate({"deployments": {"renderer": {"num_gpus": 0.25}}})
    assert fit_to(own, 1).deployments.renderer.num_gpus == 0.25


@pytest.mark.parametrize("uri", ["", "/mnt/shared", "file:///mnt/shared", "memory://a", "simplecache::memory://a"])
def test_stores_that_can_be_opened(uri: str) -> None:
    assert AppConfig.model_validate({"stores": {"avatars": uri}}).stores.avatars == uri


def test_each_deployment_receives_only_its_own() -> None:
    config = AppConfig.model_validate({"stores": {"avatars": "memory://avatars"}, "renderer_cache_bytes": 2**21})
    renderer = config.stage("renderer")
    assert isinstance(renderer, RendererSettings)
    assert renderer.stores.avatars == "memory://avatars" and renderer.cache_bytes == 2**21
    assert not hasattr(config.stage("audio_features"), "stores")
    assert config.session_host().stores.avatars == "memory://avatars"
    assert config.ingress().limits is config.session_host().limits is config.limits


def test_yaml_problems_name_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("limits: {max_audio_s: [}")
    with pytest.raises(InvalidInputError, match="YAML"):
        load_config(path)
    path.write_text("limits: {max_audio_s: 0}")
    with pytest.raises(InvalidInputError) as refused:
        load_config(path)
    assert refused.value.field == "limits.max_audio_s" and refused.value.got == "0"
    for text, field in (("[1, 2]", "config"), ("just text", "config"), ("{1: 2}", "1"), ("limits: [3]", "limits")):
        path.write_text(text)
        with pytest.raises(InvalidInputError) as refused:
            load_config(path)
        assert refused.value.field == field, text
    path.write_text("")
    assert load_config(path) == AppConfig() == load_config()


def test_ray_serve_validates_yaml_args_with_it() -> None:
    """Ray Serve reads the annotation of `build_app`; as a string it would hand in a bare dict."""
    import inspect

    from serve_app.app import build_app

    [parameter] = inspect.signature(build_app).parameters.values()
    assert parameter.annotation is AppConfig


def test_the_graph_binds_with_its_options() -> None:
    from ray.serve._private.build_app import build_app as flatten

    from serve_app.app import build_app

    built = flatten(build_app(AppConfig()), name="liveanchor")
    found = {one.name: one for one in built.deployments}
    assert set(found) == {"Ingress", "SessionHost", "AudioFeatures", "MotionDiffusion", "Renderer", "Rife"}
    assert built.ingress_deployment_name == "Ingress"
    router = found["Renderer"]._deployment_config.request_router_config.request_router_class
    assert router.replace(":", ".") == ROUTER.replace(":", ".") or router.__name__ == "SetRouter"
    assert found["Rife"]._deployment_config.autoscaling_config.min_replicas == 0
