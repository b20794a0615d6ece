"""`deploy/kubernetes`: values reach the service, every file is named, and kubectl renders the whole."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from serve_app.config.settings import load_config
from tests.support.paths import ROOT
from tests.unit.deploy.relays import is_denied

FOLDER = ROOT / "deploy" / "kubernetes"
PRODUCTION = FOLDER / "production"


def values(name: str) -> dict[str, str]:
    lines = (PRODUCTION / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def test_values_are_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (values("settings.env") | values("secrets.env.example")).items():
        if name.startswith("LIVEANCHOR_"):
            monkeypatch.setenv(name, value)
    config = load_config()
    assert config.keys.required == "always" and config.stores.jobs.endswith("@valkey:6379/0")
    assert config.rtc.turn_urls and config.rtc.turn_secret.get_secret_value() and config.rtc.udp_port_min == 50000


def test_secrets_are_asked_for_that_exist() -> None:
    secrets = values("secrets.env.example")
    for path in PRODUCTION.glob("*.yaml"):
        for line in path.read_text().splitlines():
            if "key: " in line and "secretKeyRef" in line:
                assert line.rpartition("key: ")[2].rstrip("}") in secrets, line
    assert "/deploy/kubernetes/production/secrets.env" in (ROOT / ".gitignore").read_text().splitlines()
    assert {value for name, value in secrets.items() if name.endswith(("PASSWORD", "SECRET"))} == {"CHANGE-ME"}


def test_every_file_is_named_once() -> None:
    [kustomization] = documents(PRODUCTION / "kustomization.yaml")
    there = {path.name for path in PRODUCTION.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == there | {"../base"}
    [base] = documents(FOLDER / "base" / "kustomization.yaml")
    assert set(base["resources"] + base["configurations"]) == {
        path.name for path in (FOLDER / "base").glob("*.yaml")
    } - {"kustomization.yaml"}


def test_containers_have_no_rights() -> None:
    for name in ("valkey.yaml", "turn.yaml"):
        pod = documents(PRODUCTION / name)[0]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        for one in pod["containers"]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert one["resources"]["requests"] and one["resources"]["limits"]
    [service] = [one for one in documents(FOLDER / "base" / "rayservice.yaml") if one["kind"] == "RayService"]
    cluster = service["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        for one in group["template"]["spec"]["containers"]:
            assert one["securityContext"]["runAsNonRoot"] is True
            assert {"configMapRef", "secretRef"} == {name for source in one["envFrom"] for name in source}


def test_the_relay_leads_to_media_alone() -> None:
    [relay] = documents(PRODUCTION / "turn.yaml")[0]["spec"]["template"]["spec"]["containers"]
    assert "--no-tcp-relay" in relay["args"]
    for peer in ("0.0.0.1", "127.0.0.1", "169.254.169.254", "10.96.0.1", "fe80::1"):
        assert is_denied(relay["args"], peer), peer
    for pod in ("10.244.0.7", "192.168.0.7", "100.64.0.7"):  # kubeadm's with Flannel, Calico's, some clouds'
        assert not is_denied(relay["args"], pod), pod


def test_ports_that_run_code_are_open_to_ray_and_its_operator_alone() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in documents(PRODUCTION / "network.yaml")}
    nodes = {"matchExpressions": [{"key": "ray.io/node-type", "operator": "Exists"}]}
    assert policies["ray"]["podSelector"] == nodes and policies["valkey"]["podSelector"] == {
        "matchLabels": documents(PRODUCTION / "valkey.yaml")[0]["spec"]["template"]["metadata"]["labels"]
    }
    [to_valkey] = policies["valkey"]["ingress"]
    assert to_valkey["from"] == [{"podSelector": nodes}]
    everybody = [one for one in policies["ray"]["ingress"] if "from" not in one]
    media = {"protocol": "UDP"} | {
        field: int(values("settings.env")[f"LIVEANCHOR_RTC__UDP_PORT_{end}"])
        for field, end in (("port", "MIN"), ("endPort", "MAX"))
    }
    assert [one["ports"] for one in everybody] == [[{"protocol": "TCP", "port": 8000}, media]]
    for one in policies["ray"]["ingress"]:
        asked = {port["port"] for port in one.get("ports", [])} or {8265, 6379, 10001}
        if asked & {8265, 6379, 10001}:
            [source] = one["from"]
            operator = source["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
            assert source == {"podSelector": nodes} or (operator == "kuberay-operator" and asked == {8265})


@pytest.mark.nightly("needs kubectl, which is in no package that the tests install")
def test_kubectl_renders_it(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    production = tmp_path / "kubernetes" / "production"
    shutil.copy(production / "secrets.env.example", production / "secrets.env")
    done = subprocess.run(["kubectl", "kustomize", production], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    everything = list(yaml.safe_load_all(done.stdout))
    rendered = {one["kind"]: one for one in everything}
    secret = rendered["Secret"]["metadata"]["name"]
    defaults, settings = sorted(one["metadata"]["name"] for one in everything if one["kind"] == "ConfigMap")
    assert defaults == "liveanchor-defaults" and settings.startswith("liveanchor-settings-")
    assert secret != "liveanchor-secrets", "it has a hash, so that a change is a new cluster"  # noqa: S105
    cluster = rendered["RayService"]["spec"]["rayClusterConfig"]
    assert cluster["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]["secretKeyRef"]["name"] == secret
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        for one in group["template"]["spec"]["containers"]:
            assert [source.get("secretRef", source.get("configMapRef"))["name"] for source in one["envFrom"]] == [
                defaults,
                settings,
                secret,
            ]
    assert {one["metadata"].get("namespace", "liveanchor") for one in rendered.values()} == {"liveanchor"}
    asked = {"Namespace", "PersistentVolumeClaim", "StatefulSet", "DaemonSet", "NetworkPolicy", "PodMonitor", "Service"}
    assert asked <= set(rendered)
