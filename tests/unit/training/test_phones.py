import numpy as np
import pytest

from training import phones
from training.phones import (
    PHONE_CLASS,
    PHONES,
    SILENCE,
    Phone,
    PhoneClass,
    from_arpabet,
    from_ipa,
    rasterise,
    split,
    tidy,
)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("m", ("m",)),
        ("ɑː", ("ɑ",)),
        ("aɪɚ", ("aɪ", "ɜ")),
        ("ɐ̃ʊ̃", ("aʊ",)),
        ("n̩", ("n",)),
        ("ç", ("ʃ",)),
        ("pf", ("p", "f")),
        ("tɕ", ("tʃ",)),
        ("tʰ", ("t",)),
        ("th", ("t",)),
        ("mʲ", ("m",)),
        ("ɾ", ("d",)),
        ("r", ("l",)),
        ("ˈa", ("a",)),
        ("ɔɪ", ("ɔ", "ɪ")),
        ("ʔ", ()),
        ("ʲ", ()),
        ("", (SILENCE,)),
        ("_:", (SILENCE,)),
    ],
)
def test_ipa(symbol: str, expected: tuple[str, ...]) -> None:
    assert from_ipa(symbol) == expected


def test_arpabet_takes_any_case_and_stress() -> None:
    assert from_arpabet("AY1") == ("aɪ",)
    assert from_arpabet("hh") == ("h",)
    assert from_arpabet("oy") == ("ɔ", "ɪ")
    assert from_arpabet("pau") == (SILENCE,)


def test_unknown_symbols_are_counted_and_never_raise() -> None:
    phones.unknown.clear()
    assert from_ipa("☃a") == ("a",)
    assert from_arpabet("qq") == ()
    assert phones.unknown == {"☃": 1, "qq": 1}
    phones.unknown.clear()


def test_every_phone_has_one_class_and_silence_is_label_zero() -> None:
    assert PHONES[0] == SILENCE
    assert len(set(PHONES)) == len(PHONES) == len(PHONE_CLASS)
    assert {s for s, group in PHONE_CLASS.items() if group is PhoneClass.BILABIAL} == {"m", "b", "p"}


def test_every_mapping_ends_in_the_inventory() -> None:
    for table in (phones._LETTERS, phones._ARPABET, phones._JOINS):
        for parts in table.values():
            assert set(parts) <= set(PHONES)


def test_split_shares_the_time_vowels_twice() -> None:
    parts = split(("aɪ", "ɹ"), 1.0, 1.3)
    assert [p.symbol for p in parts] == ["aɪ", "ɹ"]
    assert parts[0].end_s == pytest.approx(1.2) == parts[1].start_s
    assert parts[1].end_s == pytest.approx(1.3)


def test_tidy_tiles_the_audio() -> None:
    out = tidy([Phone("m", 0.1, 0.2), Phone("t", 0.2, 0.2), Phone(SILENCE, 0.25, 0.3), Phone("a", 0.28, 0.9)], 0.6)
    assert [p.symbol for p in out] == [SILENCE, "m", SILENCE, "a"]
    assert out[0].start_s == 0.0
    assert out[-1].end_s == 0.6
    assert all(a.end_s == b.start_s for a, b in zip(out, out[1:], strict=False))


def test_rasterise_labels_row_centres() -> None:
    labels = rasterise([Phone("m", 0.0, 0.031), Phone("a", 0.031, 0.06)], 4, 50.0)
    assert [PHONES[i] for i in labels] == ["m", "m", "a", SILENCE]
    assert labels.dtype == np.uint8
    assert not rasterise([], 3, 50.0).any()
