"""`serve_config.yaml` and the document that `liveanchor serve` submits: what Ray Serve and the application make of them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

pytest.importorskip("ray.serve")

from ray.serve.config import AutoscalingPolicy
from ray.serve.schema import ServeDeploySchema

from deployments.config import DEPLOYMENT_NAMES, DeploymentSettings
from deployments.graph.scaling import whole_sets
from pipeline.family import USUAL_SHARES
from pipeline.live.settings import LiveSettings
from serve_app.config.declare import fit_to, serve_document
from serve_app.config.settings import AppConfig

STAGES = ("AudioFeatures", "MotionDiffusion", "Renderer", "Rife")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "serve_config.yaml").read_text(encoding="utf-8"))
    return loaded


def deployments(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    [application] = document["applications"]
    return {one["name"]: one for one in application["deployments"]}


def at_min(document: dict[str, Any], resource: str) -> float:
    return sum(
        one["ray_actor_options"][resource] * one["autoscaling_config"]["min_replicas"]
        for one in deployments(document).values()
    )


def test_ray_serve_accepts_it(document: dict[str, Any]) -> None:
    schema = ServeDeploySchema.model_validate(document)
    assert schema.applications[0].import_path == "serve_app.app:build_app"


def test_its_args_are_the_applications(document: dict[str, Any]) -> None:
    config = AppConfig.model_validate(document["applications"][0]["args"])
    assert config.models.family == "mini"
    assert config.batches.motion_diffusion.max_size == 16


def test_it_names_every_deployment_and_spells_everything_out(document: dict[str, Any]) -> None:
    found = deployments(document)
    assert set(found) == set(DEPLOYMENT_NAMES.values())
    spelled = set(DeploymentSettings().serve_options()) | {"name"}
    for name, one in found.items():
        assert spelled <= set(one), f"{name} leaves {spelled - set(one)} to defaults"
        assert {"num_cpus", "num_gpus"} == set(one["ray_actor_options"]), name
        shares = DeploymentSettings(num_gpus=one["ray_actor_options"]["num_gpus"])
        wanted = set(shares.serve_options()["autoscaling_config"])
        assert set(one["autoscaling_config"]) == wanted, name
        assert one["max_ongoing_requests"] >= one["autoscaling_config"]["target_ongoing_requests"], name


def test_one_gpu_and_two_cores_hold_the_minimum(document: dict[str, Any]) -> None:
    assert at_min(document, "num_gpus") <= 1.0 + 1e-9
    assert at_min(document, "num_cpus") <= 1.8 + 1e-9
    for name in STAGES:
        assert 0 < deployments(document)[name]["ray_actor_options"]["num_gpus"] < 1


def test_a_rolling_change_fits_too(document: dict[str, Any]) -> None:
    """Old hosts stay until their jobs are done, and those jobs need the new stages: otherwise both wait for each other."""
    for each in (document, serve_document(AppConfig(), "127.0.0.1", 8000)):
        cpus = {name: one["ray_actor_options"]["num_cpus"] for name, one in deployments(each).items()}
        stages = sum(cpus[name] for name in STAGES)
        assert stages + 4 * (cpus["SessionHost"] + cpus["Ingress"]) <= 2.0 + 1e-9, "two of each, old and new"


def test_shares_are_those_of_liveanchor_serve(document: dict[str, Any]) -> None:
    for field, share in USUAL_SHARES.items():
        assert deployments(document)[DEPLOYMENT_NAMES[field]]["ray_actor_options"]["num_gpus"] == share


def test_a_replica_batches_no_more_than_it_takes_in(document: dict[str, Any]) -> None:
    batches = document["applications"][0]["args"]["batches"]
    for field, batch in batches.items():
        assert batch["max_size"] <= deployments(document)[DEPLOYMENT_NAMES[field]]["max_ongoing_requests"]


def test_stages_route_by_set_and_hosts_drain_long_enough(document: dict[str, Any]) -> None:
    found = deployments(document)
    for name in STAGES:
        assert found[name]["request_router_config"] == {
            "request_router_class": "deployments.graph.set_router:SetRouter"
        }
    longest = AppConfig.model_validate(document["applications"][0]["args"]).limits.max_audio_s
    submitted = deployments(serve_document(AppConfig(), "127.0.0.1", 8000))
    for name in ("SessionHost", "Ingress"):
        assert found[name]["graceful_shutdown_timeout_s"] >= longest
        assert submitted[name]["graceful_shutdown_timeout_s"] == found[name]["graceful_shutdown_timeout_s"]


def test_renderers_are_added_before_live_sessions_are_refused(document: dict[str, Any]) -> None:
    """Calls in flight = sessions * share of the time that their pictures take (Little); admission refuses at a share.

    A second host is there before the first one is full, as the next test says.
    """
    live = LiveSettings()
    in_flight = 2 * live.max_sessions * live.max_chunk_latency_share
    assert deployments(document)["Renderer"]["autoscaling_config"]["target_ongoing_requests"] <= in_flight


def test_a_host_is_added_while_others_have_two_places_left_each(document: dict[str, Any]) -> None:
    """A live session is one call for as long as it lasts; Ray Serve wants `ceil(calls / target)` hosts."""
    for each in (document, serve_document(fit_to(AppConfig(), 1.0), "127.0.0.1", 8000)):
        scaling = deployments(each)["SessionHost"]["autoscaling_config"]
        assert LiveSettings().max_sessions - scaling["target_ongoing_requests"] >= 2
        assert scaling["upscale_delay_s"] <= 5 and scaling["max_replicas"] > scaling["min_replicas"]


def test_stages_with_a_share_are_scaled_as_whole_sets(document: dict[str, Any]) -> None:
    """One per node, and the same bounds and delays for all of them: Ray Serve applies those after the policy."""
    for each in (document, serve_document(fit_to(AppConfig(), 4.0), "127.0.0.1", 8000)):
        found = deployments(each)
        per_node = {name: one.get("max_replicas_per_node") for name, one in found.items()}
        assert {name for name, count in per_node.items() if count} == set(STAGES)
        assert all(per_node[name] == 1 and found[name]["ray_actor_options"]["num_gpus"] > 0 for name in STAGES)
        for key in ("max_replicas", "upscale_delay_s", "downscale_delay_s", "look_back_period_s"):
            assert len({found[name]["autoscaling_config"][key] for name in STAGES}) == 1, key
        [application] = each["applications"]
        policy = AutoscalingPolicy.model_validate(application["autoscaling_policy"]).get_policy()
        assert (policy.__module__, policy.__qualname__) == (whole_sets.__module__, whole_sets.__qualname__)


@pytest.mark.parametrize("gpus", [1.0, 2.0, 4.0, 8.0])
def test_every_gpu_may_get_a_set_and_its_hosts(gpus: float) -> None:
    found = deployments(serve_document(fit_to(AppConfig(), gpus), "127.0.0.1", 8000))
    assert all(found[name]["autoscaling_config"]["max_replicas"] >= gpus for name in STAGES)
    assert found["SessionHost"]["autoscaling_config"]["max_replicas"] * 6 >= 16 * gpus


def test_the_nodes_of_one_machine_do_not_ask_for_the_same_port() -> None:
    assert serve_document(AppConfig(), "127.0.0.1", 8000, one_proxy=True)["proxy_location"] == "HeadOnly"
    assert serve_document(AppConfig(), "127.0.0.1", 8000)["proxy_location"] == "EveryNode"


def test_new_hosts_start_before_old_ones_drain(document: dict[str, Any]) -> None:
    """Else the last host goes before there is another, and a change stands still for as long as a session drains."""
    for each in (document, serve_document(AppConfig(), "127.0.0.1", 8000)):
        surge = {name: one["max_surge_percent"] for name, one in deployments(each).items()}
        assert (surge["Ingress"], surge["SessionHost"]) == (100, 100)
        assert not any(surge[name] for name in STAGES), "the shares of the minimum fill a GPU"


def test_a_change_of_settings_keeps_the_number_of_replicas(document: dict[str, Any]) -> None:
    """Ray Serve goes back to `initial_replicas` at every change of a deployment's options, also under load."""
    for each in (document, serve_document(AppConfig(), "127.0.0.1", 8000)):
        assert not any("initial_replicas" in one["autoscaling_config"] for one in deployments(each).values())


@pytest.mark.parametrize("gpus", [0.0, 4.0])
def test_the_submitted_document_is_valid_and_fits_the_cluster(gpus: float) -> None:
    submitted = serve_document(fit_to(AppConfig(), gpus), "127.0.0.1", 8123)
    ServeDeploySchema.model_validate(submitted)
    assert set(deployments(submitted)) == set(DEPLOYMENT_NAMES.values())
    assert at_min(submitted, "num_cpus") <= 1.8
    shares = [one["ray_actor_options"]["num_gpus"] for one in deployments(submitted).values()]
    assert (sum(shares) == pytest.approx(1.0)) if gpus else not any(shares)
    assert submitted["http_options"] == {"host": "127.0.0.1", "port": 8123}
    assert AppConfig.model_validate(submitted["applications"][0]["args"]) == AppConfig()
