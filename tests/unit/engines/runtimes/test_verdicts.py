"""What a start remembers of the one before: the way that won, checked again before it serves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from engines.runtimes import verdicts as module
from engines.runtimes.choice import choose_runtime
from engines.runtimes.protocol import Runtime
from engines.runtimes.verdicts import KEPT_VALUES, Verdict, Verdicts, part_of

INPUTS = [(torch.linspace(0.1, 5.0, 5000),), (torch.arange(2.0, 6.0),)]


class Way:
    """Multiplies."""

    def __init__(self, name: str, factor: float = 2.0) -> None:
        self.name, self.device, self._factor = name, torch.device("cpu"), factor

    def run(self, *inputs: Tensor) -> Tensor:
        return inputs[0] * self._factor


class Stage:
    """A stage that starts again and again; notes which ways were made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, list[str]()
        self.factors = {"eager": 2.0, "compiled": 2.0, "tensorrt": 2.0}
        self.ms = {"eager": 9.0, "compiled": 3.0, "tensorrt": 5.0}
        self.network = nn.Linear(3, 3)

    def start(self, wanted: str = "auto") -> str:
        self.made.clear()
        others = {name: self._maker(name) for name in ("compiled", "tensorrt")}
        chosen = choose_runtime(
            wanted,
            self._maker("eager"),
            others,
            INPUTS,
            stage="test",
            device="cuda",
            max_error=1e-2,
            measure=lambda runtime, inputs: self.ms[runtime.name],
            verdicts=lambda: Verdicts("test", [self.network], "cpu", list(others), self.folder),
        )
        return chosen.name

    def _maker(self, name: str) -> Callable[[], Runtime]:
        def make() -> Runtime:
            self.made.append(name)
            return Way(name, self.factors[name])

        return make


def test_the_second_start_makes_the_winner_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "runtimes")
    assert stage.start() == "compiled" and stage.made == ["eager", "compiled", "tensorrt"]
    assert stage.start() == "compiled" and stage.made == ["compiled"]
    stage.ms["compiled"] = 99.0
    assert stage.start() == "compiled", "it is remembered, not timed"


def test_a_winner_whose_numbers_are_off_now_is_found_out_anew(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.start()
    stage.factors["compiled"] = 2.1
    assert stage.start() == "tensorrt" and stage.made == ["compiled", "eager", "compiled", "tensorrt"]
    assert stage.start() == "tensorrt" and stage.made == ["tensorrt"]


def test_a_verdict_that_cannot_be_removed_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    stage = Stage(tmp_path)
    stage.start()
    stage.factors["compiled"] = 2.1
    monkeypatch.setattr(Path, "unlink", refused)
    assert stage.start() == "tensorrt"


def test_a_winner_that_cannot_be_made_any_more_is_found_out_anew(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.start()
    del stage.factors["compiled"]

    def broken(name: str) -> Callable[[], Runtime]:
        def make() -> Runtime:
            stage.made.append(name)
            if name == "compiled":
                raise RuntimeError("CUDA error: no kernel image")
            return Way(name)

        return make

    stage._maker = broken  # type: ignore[method-assign]
    assert stage.start() == "tensorrt"


@pytest.mark.parametrize("change", ["weights", "code", "device", "package"])
def test_anything_that_could_change_the_winner_is_another_verdict(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    stage.start()
    if change == "weights":
        with torch.no_grad():
            stage.network.bias += 1e-3
    elif change == "code":
        monkeypatch.setattr(module, "code_sha256", lambda: "other")
    elif change == "package":
        monkeypatch.setattr(module, "_version", lambda package: "9.9")
    else:
        driver = tmp_path / "driver"
        driver.write_text("NVRM version: 999")
        monkeypatch.setattr(module, "_DRIVER", driver)
    stage.start()
    assert stage.made == ["eager", "compiled", "tensorrt"]
    assert len(list(tmp_path.glob("*.json"))) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"runtime": "compiled"}', '{"runtime": "compiled", "answer": []}', '{"answer": ["x"]}'],
)
def test_a_damaged_file_costs_a_start_its_seconds_and_nothing_else(tmp_path: Path, text: str) -> None:
    stage = Stage(tmp_path)
    stage.start()
    [path] = tmp_path.glob("*.json")
    path.write_text(text)
    assert stage.start() == "compiled" and len(stage.made) == 3
    assert json.loads(path.read_text())["runtime"] == "compiled", "written again"


def test_a_way_that_is_not_known_any_more_is_no_winner(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.start()
    [path] = tmp_path.glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"runtime": "warp"}))
    assert stage.start() == "compiled" and len(stage.made) == 3


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stage = Stage(tmp_path / "file" / "runtimes")
    assert stage.start() == stage.start() == "compiled"


@pytest.mark.parametrize("wanted", ["eager", "compiled"])
def test_a_named_way_asks_and_tells_nobody(tmp_path: Path, wanted: str) -> None:
    stage = Stage(tmp_path)
    assert stage.start(wanted) == wanted and not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [1, KEPT_VALUES, KEPT_VALUES + 1, 100 * KEPT_VALUES + 7])
def test_of_an_answer_some_values_from_everywhere_are_kept(count: int) -> None:
    part = part_of(torch.arange(float(count)))
    assert min(count, KEPT_VALUES // 2) <= len(part) <= KEPT_VALUES
    assert part[0] == 0 and part[-1] >= count - 1 - count / len(part)


def test_an_answer_that_is_no_number_is_not_kept(tmp_path: Path) -> None:
    memory = Verdicts("test", [], "cpu", ["compiled"], tmp_path)
    memory.keep(Verdict("compiled", torch.tensor([float("nan")])))
    assert memory.find() is None


def test_on_a_cpu_nothing_is_asked_for() -> None:
    def never() -> Verdicts:
        raise AssertionError("there is one way only")

    chosen = choose_runtime(
        "auto", lambda: Way("eager"), {"compiled": never}, [], stage="t", device="cpu", max_error=1.0, verdicts=never
    )
    assert chosen.name == "eager"
