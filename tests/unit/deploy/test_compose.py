"""`deploy/compose.yaml`: the specification's own model takes it, its settings are ours, its ports fit each other."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from serve_app.config.settings import AppConfig, load_config
from tests.support.paths import ROOT
from tests.support.require import missing
from tests.unit.deploy.relays import is_denied

FOLDER = ROOT / "deploy"
FILLED = {
    "PUBLIC_IP": "203.0.113.10",
    "VALKEY_PASSWORD": "v4lkey",
    "TURN_SECRET": "t0rn",
    "LIVEANCHOR_TARGET": "cuda",
}


def filled(name: str) -> str:
    """The file with its variables put in, as `docker compose config` does it."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return re.sub(r"\$\{(\w+)(?::[-?][^}]*)?\}", lambda match: FILLED[match[1]], text)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(filled("compose.yaml"))["services"]
    return found


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_it_is_a_compose_file(name: str) -> None:
    try:
        from compose_spec import PyCompose
    except ImportError:
        missing("EXTRAS", "compose-spec is not installed: pip install 'liveanchor[dev]'")
    compose = PyCompose.from_yaml(filled(name))
    compose.validate()
    assert "liveanchor" in compose.service_names()
    with pytest.raises(Exception, match="(?i)service|volume|unknown|undefined|expected|invalid|type"):
        PyCompose.from_yaml("services: {a: {image: b, ports: {c: d}}}").validate()


def test_every_variable_is_in_the_example(services: dict[str, Any]) -> None:
    used = set(re.findall(r"\$\{(\w+)", (FOLDER / "compose.yaml").read_text()))
    named = {line.partition("=")[0] for line in (FOLDER / "example.env").read_text().splitlines() if "=" in line}
    assert used == named == set(FILLED)


def test_its_settings_are_ours(services: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in services["liveanchor"]["environment"].items():
        monkeypatch.setenv(name, value)
    config: AppConfig = load_config()
    assert config.keys.required == "always" and config.stores.jobs == "redis://:v4lkey@valkey:6379/0"
    (stun,), coturn = config.rtc.ice_servers, services["coturn"]["command"]
    assert stun.urls == ("stun:203.0.113.10:3478",) and config.rtc.turn_urls[0].startswith("turn:203.0.113.10:3478")
    assert (
        f"--static-auth-secret={config.rtc.turn_secret.get_secret_value()}" in coturn and "--use-auth-secret" in coturn
    )
    ports = f"{config.rtc.udp_port_min}-{config.rtc.udp_port_max}"
    assert f"{ports}:{ports}/udp" in services["liveanchor"]["ports"]


def test_only_media_and_the_relay_are_reached_from_elsewhere(services: dict[str, Any]) -> None:
    opened = [
        port for one in services.values() for port in one.get("ports", []) if not str(port).startswith("127.0.0.1:")
    ]
    assert opened and all(str(port).endswith("/udp") for port in opened)
    assert services["liveanchor"]["cap_drop"] == ["ALL"]


@pytest.mark.parametrize(
    "peer",
    ["0.0.0.1", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.17.0.1", "172.31.255.255"]
    + ["192.168.1.1", "fd00::1", "fe80::1"],
)
def test_the_relay_leads_into_no_network_behind_it(services: dict[str, Any], peer: str) -> None:
    relay = services["coturn"]["command"]
    assert "--no-tcp-relay" in relay and is_denied(relay, peer)
    assert not is_denied(relay, FILLED["PUBLIC_IP"]), "media go there"


def test_what_is_accepted_survives(services: dict[str, Any]) -> None:
    command = " ".join(services["valkey"]["command"])
    assert "--appendonly yes" in command and "--appendfsync always" in command and "noeviction" in command
    assert "home:/data/liveanchor" in services["liveanchor"]["volumes"], "uploads and results"


def test_prometheus_reads_what_ray_writes(services: dict[str, Any]) -> None:
    [job] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    [source] = job["file_sd_configs"]
    assert source["files"] == ["/ray/prom_metrics_service_discovery.json"]
    assert "ray:/ray:ro" in services["prometheus"]["volumes"] and "ray:/tmp/ray" in services["liveanchor"]["volumes"]
