"""Values as forms and JSON spell them: equal ones are equal, others are refused by their field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from serve_app.http.body.fields import choice_field
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.pieces import FormShape, RawForm, Upload
from serve_app.http.files.fields import JOB_SHAPE, JobForm, job_form
from serve_app.http.live.fields import LIVE_FPS, OFFER_SHAPE, fragment_candidates, offer_form
from serve_app.http.live.fields import _json_candidates as json_candidates
from serve_app.http.settings import ApiSettings

SHAPE_OF_X = FormShape((), ("x",))


def from_form(**values: str) -> JobForm:
    return job_form(RawForm({"audio": Upload(b"x")}, dict(values)), SessionSettings())


def from_json(text: str) -> JobForm:
    return job_form(parse_json(b'{"audio": "eA==", ' + text.encode() + b"}", JOB_SHAPE), SessionSettings())


@pytest.mark.parametrize("spelled", ["50", "50.0", "5e1", "+50", " 50 ", "500e-1"])
def test_a_form_spells_numbers_in_any_way(spelled: str) -> None:
    found = from_form(fps=spelled, seed=spelled, chunk_frames="80e-1", stream="1.0")
    assert (found.session.fps, found.seed, found.session.chunk_frames, found.stream) == (50, 50, 8, True)
    assert isinstance(found.seed, int) and str(found.session.fps) == "50"


@pytest.mark.parametrize("spelled", ["50", "50.0", "5e1", "50.000", '"50"', '"50.0"', '"5e1"'])
def test_json_spells_numbers_in_any_way(spelled: str) -> None:
    found = from_json(f'"fps": {spelled}, "seed": {spelled}, "stream": 1.0')
    assert (found.session.fps, found.seed, found.stream) == (50, 50, True)
    form = parse_json(f'{{"sdp": "v=0", "fps": {spelled}, "seed": {spelled}, "echo": 0.0}}'.encode(), OFFER_SHAPE)
    offer = offer_form(form, ApiSettings())
    assert (offer.fps, offer.seed, offer.echo) == (50, 50, False) and isinstance(offer.fps, int)


def test_the_largest_seed_is_exact_in_every_spelling() -> None:
    largest = 2**63 - 1
    for text in (f"{largest}", f"{largest}.0", f'"{largest}.0"', "9.223372036854775807e18"):
        assert from_json(f'"seed": {text}').seed == largest
    with pytest.raises(InvalidInputError, match="seed: got 9223372036854775808"):
        from_json('"seed": 9223372036854775808.0')


@pytest.mark.parametrize("name", ["fps", "seed", "chunk_frames", "stream"])
@pytest.mark.parametrize("value", ["25.5", "1e400", "-5", '"NaN"', '"1e400"', '""', "[25]", '"25,0"', '"0x19"', "2e-7"])
def test_unequal_ones_are_refused_by_the_field_in_words(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        from_json(f'"{name}": {value}')
    assert refused.value.field == name and str(refused.value).startswith(f"{name}: got ")
    assert "Decimal" not in str(refused.value) and len(str(refused.value)) < 250
    if value.startswith('"'):
        with pytest.raises(InvalidInputError) as refused:
            from_form(**{name: json.loads(value)})
        assert refused.value.field == name


def test_a_candidates_line_is_a_number_too() -> None:
    def read(line: Any) -> Any:
        form = parse_json(json.dumps({"x": [{"candidate": "candidate:1", "sdpMLineIndex": line}]}).encode(), SHAPE_OF_X)
        return json_candidates(form.values["x"])[0]["sdpMLineIndex"]

    assert [read(line) for line in (1, 1.0, "1", "1.0", None)] == [1, 1, 1, 1, None]
    for wrong in (1.5, -1, 64, True, "one"):
        with pytest.raises(InvalidInputError, match="candidates: got sdpMLineIndex"):
            read(wrong)
    assert fragment_candidates(b"a=mid:0\r\n") == []


def test_a_choice_names_what_came_and_what_is_allowed() -> None:
    for value in ("30", 30, "30.0"):
        with pytest.raises(InvalidInputError, match="fps: got 30 "):
            choice_field(RawForm({}, {"fps": value}), "fps", LIVE_FPS, 25)


def test_the_voice_is_normalised_only_when_asked() -> None:
    assert (from_form().normalise, from_form(normalise="true").normalise) == (False, True)
    assert from_json('"normalise": true').normalise


@pytest.mark.parametrize("timeline", ['[{"at_s": 1.5, "expression": "sad"}]'])
def test_looks_come_alike_from_a_form_and_from_json(timeline: str) -> None:
    form = from_form(expression="happy", strength="0.5", gaze="0.5,0", expressions=timeline)
    assert (
        from_json(f'"expression": "happy", "strength": 0.5, "gaze": [0.5, 0], "expressions": {timeline}').looks
        == form.looks
    )
    assert [look.at_s for look in form.looks.looks] == [0.0, 1.5]


@pytest.mark.parametrize("field", [{"expression": "sad"}, {"gaze": "left"}, {"energy": "0.5"}])
def test_a_family_that_cannot_show_a_look_says_so(field: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        job_form(RawForm({"audio": Upload(b"x")}, dict(field)), SessionSettings(), "musetalk")
    assert (refused.value.field,) == tuple(field)
    assert "musetalk" in str(refused.value)
