"""One number, many spellings; everything else is no number."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from pipeline.numbers import exact_number, whole_number
from serve_app.config.settings import load_config

TWENTY_FIVE = [25, 25.0, Decimal("25.00"), "25", "25.0", "25.", "+25", " 25\n", "2.5e1", "250E-1", "025"]
NO_NUMBERS = [
    None, True, False, [], {}, "", " ", "NaN", "nan", "Infinity", "-inf", "1e400", "1e31", "1_000", "0x19", "25,0", "2 5", "25f",
    "٢٥", "²", "e5", ".", "+", "--5", "1e9999999999", float("nan"), float("inf"), float("-inf"), Decimal("NaN"), 10**31,
    Decimal("1e999999"), b"25", "9" * 50,
]  # fmt: skip


@pytest.mark.parametrize("value", TWENTY_FIVE)
def test_equal_numbers_are_equal(value: object) -> None:
    found = exact_number(value)
    assert found == 25 and isinstance(found, int)
    assert whole_number(value) == 25


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_spells_no_number_is_none(value: object) -> None:
    assert exact_number(value) is None and whole_number(value) is None


def test_parts_and_large_ones_are_exact() -> None:
    assert exact_number("25.5") == Decimal("25.5") and whole_number("25.5") is None
    assert exact_number(59.94) == exact_number("59.940") == Decimal("59.94")
    assert whole_number("9223372036854775807.0") == 2**63 - 1, "no float comes in between"
    assert whole_number("-5.0") == -5 and whole_number("-0") == 0 and whole_number(0.0) == 0
    assert whole_number("1e-300") is None and exact_number("0e-300") == 0


def test_variables_and_yaml_spell_numbers_in_any_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for spelling in ("8", "8.0", "8e0", " 8 ", "0.8e1"):
        for name in ("SESSION__CHUNK_FRAMES", "LIVE__CHUNK_FRAMES", "LIMITS__MAX_JOBS", "LIVE__IDLE_TTL_S"):
            monkeypatch.setenv(f"LIVEANCHOR_{name}", spelling)
        found = load_config()
        assert (found.session.chunk_frames, found.live.chunk_frames, found.limits.max_jobs) == (8, 8, 8)
        assert found.live.idle_ttl_s == 8 and isinstance(found.limits.max_jobs, int)
    for spelling, on in (("1", True), ("1.0", True), ("0.0", False), ("no", False)):
        monkeypatch.setenv("LIVEANCHOR_LIVE__STATS_IDS", spelling)
        assert load_config().live.stats_ids is on
    monkeypatch.setenv("LIVEANCHOR_RIFE__NETWORK", "4.0")
    assert load_config().rife.network == "4.0", "a name that looks like a number stays a name"
    document = tmp_path / "settings.yaml"
    document.write_text(
        "session: {fps: 50.0, cadence: 2.0}\nlimits: {max_audio_s: '6e1'}\n"
        "live: {hop_frames: '8', max_sessions: 3.0, margin_ms: 4e1}\n"
    )
    found = load_config(document)
    assert (found.session.fps, found.session.cadence, found.live.hop_frames, found.live.max_sessions) == (50, 2, 8, 3)
    assert (found.live.margin_ms, found.limits.max_audio_s) == (40, 60)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session.chunk_frames", "8.5"),
        ("session.chunk_frames", "nan"),
        ("limits.max_jobs", "4.5"),
        ("limits.max_jobs", "1e400"),
        ("live.idle_ttl_s", "1e400"),
        ("live.idle_ttl_s", "inf"),
        ("live.idle_ttl_s", "nan"),
        ("live.stats_ids", "2"),
        ("session.fps", "25.5"),
    ],
)
def test_other_values_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"LIVEANCHOR_{name.replace('.', '__').upper()}", value)
    with pytest.raises(InvalidInputError) as refused:
        load_config()
    assert refused.value.field == name and value in str(refused.value)
