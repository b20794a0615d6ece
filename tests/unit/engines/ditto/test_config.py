"""Public configurations: converted once, typed, every fault named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.ditto.checkpoint_folder import write_config
from engines.ditto.config import DittoConfig, load_config, parse_config
from engines.ditto.config_file import converted_folder, read_config_tree, read_tree, write_tree
from engines.ditto.plain_pickle import UnsafePickleError
from engines.weights.file import WeightsFileError
from tests.unit.engines.ditto.test_checkpoints import Runs

WIDTHS = {"scale": 1, "pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "kp": 63}


def character() -> dict[str, Any]:
    return {
        "x_s_info_lst": [{name: np.full((1, width), 1.25, np.float32) for name, width in WIDTHS.items()}],
        "sc": np.arange(63, dtype=np.float32),
        "eye_open_lst": [np.zeros((1, 2), np.float32)] * 2,
        "eye_ball_lst": [np.zeros((1, 6), np.float32)] * 2,
    }


SHIPPED: dict[str, Any] = {
    "online_mode": True,
    "max_size": 1920,
    "crop_scale": 2.3,
    "emo": np.zeros((600, 8), np.float64),
    "ch_info": character(),
    "overlap_v2": 70,
    "fix_kp_cond": 1,
    "fix_kp_cond_dim": [0, 202],
    "sampling_timesteps": 10,
    "v_min_max_for_clip": np.arange(4 * 265, dtype=np.float64).reshape(4, 265),
    "use_d_keys": None,
    "drive_eye": None,
    "delta_eye_arr": np.ones((15, 63), np.float32),
    "delta_eye_open_n": 0,
    "fade_type": "d0",
    "fade_out_keys": ["exp"],
    "overall_ctrl_info": {"delta_pitch": 2},
}


def test_the_shipped_form_becomes_typed_settings(tmp_path: Path) -> None:
    write_config(tmp_path, "online", SHIPPED)
    config = load_config(tmp_path, "online")
    assert (config.online_mode, config.overlap_v2, config.sampling_timesteps) == (True, 70, 10)
    assert config.fix_kp_cond_dim == (0, 202) and config.fade_out_keys == ("exp",)
    assert config.overall_ctrl_info == {"delta_pitch": 2}
    assert config.limits is not None and config.limits.shape == (2, 265) and config.limits.dtype == np.float32
    assert config.delta_eye_arr is not None and config.delta_eye_arr.shape == (15, 63)
    assert config.ch_info is not None and config.ch_info.eye_open.shape == (2, 2)
    assert config.ch_info.motion["scale"][0, 0] == 1.25


def test_the_pickle_is_converted_once_and_again_when_it_changes(tmp_path: Path) -> None:
    path = write_config(tmp_path, "online", SHIPPED)
    cache = tmp_path / "cache"
    load_config(tmp_path, "online", cache)
    converted = cache / "online.json"
    assert not list(cache.glob("*.pkl")) and (cache / "online.safetensors").is_file()
    before = converted.stat().st_mtime_ns
    load_config(tmp_path, "online", cache)
    assert converted.stat().st_mtime_ns == before
    write_config(tmp_path, "online", {**SHIPPED, "overlap_v2": 75})
    assert load_config(tmp_path, "online", cache).overlap_v2 == 75
    converted.write_text("{")
    assert load_config(tmp_path, "online", cache).overlap_v2 == 75
    assert path.is_file()


def test_without_a_configuration_the_reference_s_defaults_hold(tmp_path: Path) -> None:
    offline, online = load_config(tmp_path, "offline"), load_config(tmp_path, "online")
    assert (offline.overlap_v2, offline.sampling_timesteps, offline.fix_kp_cond) == (10, 50, 0)
    assert (online.overlap_v2, online.sampling_timesteps, online.fix_kp_cond) == (70, 10, 1)
    assert offline.emo == 4 and offline.limits is None


def test_a_tree_survives_the_conversion(tmp_path: Path) -> None:
    tree = {"a": [1, (2, 3)], "b": {"c": np.arange(6).reshape(2, 3), "d": None}, "e": np.float32(2.5), "f": "text"}
    write_tree(tmp_path / "x", tree)
    back = read_tree(tmp_path / "x")
    assert back["a"] == [1, (2, 3)] and back["b"]["d"] is None and back["f"] == "text"
    np.testing.assert_array_equal(back["b"]["c"], tree["b"]["c"])  # type: ignore[index]
    assert float(back["e"]) == 2.5


def test_a_configuration_that_runs_code_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path, "online", {"emo": Runs(tmp_path / "ran")})
    with pytest.raises(UnsafePickleError, match="online.pkl"):
        load_config(tmp_path, "online")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "converted").exists()


def test_a_truncated_or_foreign_file_is_named(tmp_path: Path) -> None:
    path = write_config(tmp_path, "online", SHIPPED)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UnsafePickleError, match="online.pkl"):
        read_config_tree(tmp_path, "online")
    path.write_bytes(b"\x80\x04}.")
    with pytest.raises(WeightsFileError, match="default_kwargs"):
        read_config_tree(tmp_path, "online")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("overlap_v2", 80),
        ("overlap_v2", "many"),
        ("sampling_timesteps", 0),
        ("v_min_max_for_clip", np.zeros((4, 264))),
        ("delta_eye_arr", np.full((15, 63), np.nan)),
        ("fade_type", "x"),
        ("ch_info", {"sc": 1}),
    ],
)
def test_a_setting_of_no_use_is_named(setting: str, value: object) -> None:
    with pytest.raises(WeightsFileError, match=setting) as caught:
        parse_config({**SHIPPED, setting: value}, "cfg.pkl")
    assert caught.value.path == "cfg.pkl"


def test_defaults_are_valid() -> None:
    assert parse_config({}, "none") == DittoConfig()


def test_what_is_derived_from_a_read_only_folder_goes_to_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path / "home"))
    folder = tmp_path / "models"
    write_config(folder, "online", SHIPPED)
    assert converted_folder(folder) == folder / "converted"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert load_config(folder, "online").overlap_v2 == 70
    assert not (folder / "converted").exists()
    (converted,) = (tmp_path / "home" / "converted").iterdir()
    assert converted.name.startswith("models-") and (converted / "online.json").is_file()
