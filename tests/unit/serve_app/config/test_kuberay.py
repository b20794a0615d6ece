"""`deploy/kubernetes/base/rayservice.yaml`: the fields that decide whether a cluster serves, scales and drains."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from serve_app.cluster.own import CALL_DEATH, NICENESS, NICENESS_ENV
from tests.support.paths import ROOT


def documents() -> dict[str, dict[str, Any]]:
    text = (ROOT / "deploy/kubernetes/base/rayservice.yaml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    return documents()["RayService"]


@pytest.fixture(scope="module")
def serve_config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "serve_config.yaml").read_text(encoding="utf-8"))
    return loaded


def pods(service: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = service["spec"]["rayClusterConfig"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def containers(service: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for pod in pods(service) for one in pod["containers"]]


def test_it_is_a_ray_service_with_our_serve_config(service: dict[str, Any], serve_config: dict[str, Any]) -> None:
    assert (service["apiVersion"], service["kind"]) == ("ray.io/v1", "RayService")
    assert yaml.safe_load(service["spec"]["serveConfigV2"]) == serve_config


def test_one_image_of_the_version_that_is_tested(service: dict[str, Any]) -> None:
    assert len({one["image"] for one in containers(service)}) == 1
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"ray=={service['spec']['rayClusterConfig']['rayVersion']}\n" in pinned


def test_a_worker_holds_the_minimum_and_the_head_holds_no_replica(
    service: dict[str, Any], serve_config: dict[str, Any]
) -> None:
    cluster = service["spec"]["rayClusterConfig"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    [group] = cluster["workerGroupSpecs"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    deployments = serve_config["applications"][0]["deployments"]
    for resource, limit in (("num_cpus", limits["cpu"]), ("num_gpus", limits["nvidia.com/gpu"])):
        needed = sum(
            one["ray_actor_options"][resource] * one["autoscaling_config"]["min_replicas"] for one in deployments
        )
        assert needed <= float(limit) + 1e-9
    assert group["minReplicas"] >= 1 and group["maxReplicas"] > group["minReplicas"]
    for one in containers(service):
        assert one["resources"]["limits"] == one["resources"]["requests"], "Ray must not be throttled or evicted"


def test_ports(service: dict[str, Any], serve_config: dict[str, Any]) -> None:
    for one in containers(service):
        ports = {port["name"]: port["containerPort"] for port in one["ports"]}
        assert ports["serve"] == serve_config["http_options"]["port"]
    head = {port["name"]: port["containerPort"] for port in containers(service)[0]["ports"]}
    assert {"gcs-server", "dashboard", "client", "metrics"} <= set(head)


def test_jobs_get_the_time_that_was_promised(service: dict[str, Any], serve_config: dict[str, Any]) -> None:
    deployments = serve_config["applications"][0]["deployments"]
    promised = max(one["graceful_shutdown_timeout_s"] for one in deployments)
    for pod in pods(service):
        assert pod["terminationGracePeriodSeconds"] > promised
    assert service["spec"]["rayClusterDeletionDelaySeconds"] > promised
    worker = containers(service)[1]
    assert str(promised) in " ".join(worker["lifecycle"]["preStop"]["exec"]["command"])
    for one in containers(service):
        env = {entry["name"]: entry["value"] for entry in one["env"]}
        assert int(env["RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"]) > promised
        assert int(env["RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S"]) > promised
        assert env["RAY_AUTH_MODE"] in ("disabled", "token")
        assert env[NICENESS_ENV] == NICENESS, "replicas yield to every other program"
        assert env.items() >= CALL_DEATH.items()


def test_what_nodes_share_is_shared(service: dict[str, Any]) -> None:
    for pod, one in zip(pods(service), containers(service), strict=True):
        mounts = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
        claims = {volume["name"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume}
        for name in ("LIVEANCHOR_STORES__AVATARS", "LIVEANCHOR_STORES__RESULTS"):
            path = documents()["ConfigMap"]["data"][name].removeprefix("file://")
            assert any(path.startswith(mounts[claim]) for claim in claims)


def test_the_user_of_the_image_may_write_into_volumes(service: dict[str, Any]) -> None:
    group = re.search(r"^USER \d+:(\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert group is not None
    for pod in pods(service):
        assert pod["securityContext"] == {"fsGroup": int(group[1]), "fsGroupChangePolicy": "OnRootMismatch"}


def test_settings_of_yours_win_over_those_of_the_manifest(service: dict[str, Any]) -> None:
    defaults = documents()["ConfigMap"]
    assert defaults["data"].keys() >= {
        "LIVEANCHOR_STORES__AVATARS",
        "LIVEANCHOR_STORES__RESULTS",
        "LIVEANCHOR_KEYS__FILE",
    }
    for one in containers(service):
        sources = [
            next(iter(source.values())) for source in one["envFrom"]
        ]  # of two that say the same the last one wins
        assert [source["name"] for source in sources] == [
            defaults["metadata"]["name"],
            "liveanchor-settings",
            "liveanchor-secrets",
        ]
        assert [source.get("optional", False) for source in sources] == [False, True, True]
        assert not [
            entry["name"] for entry in one["env"] if entry["name"].startswith("LIVEANCHOR_") and "__" in entry["name"]
        ]
