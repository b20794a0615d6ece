"""Which GPUs are used, and a node for each of them."""

from __future__ import annotations

import os
import sys

import pytest

from kernels.errors import InvalidInputError
from serve_app.cluster import gpu_nodes
from serve_app.cluster.errors import ServiceFailedError
from serve_app.cluster.gpu_nodes import choose_gpus, further_nodes, only_gpu, visible_gpus

FOUR = ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("all", FOUR),
        ("1", ["0"]),
        ("4", FOUR),
        ("0,2", ["0", "2"]),
        ("3,", ["3"]),
        (" 1 , 0 ", ["1", "0"]),
    ],
)
def test_gpus_are_chosen_by_number_or_by_index(wanted: str, chosen: list[str]) -> None:
    assert choose_gpus(wanted, FOUR) == chosen


def test_an_index_counts_within_the_gpus_that_are_visible() -> None:
    assert choose_gpus("1,", ["5", "GPU-8f3c"]) == ["GPU-8f3c"]


@pytest.mark.parametrize("wanted", ["", "0", "5", "-1", "1.5", "two", "0,4", "0,0", ",", "All", "0;1"])
def test_what_is_not_there_is_refused_by_name(wanted: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        choose_gpus(wanted, FOUR)
    assert refused.value.field == "--gpus"
    assert "up to 4" in str(refused.value)


@pytest.mark.parametrize("wanted", ["all", "1", "0,"])
def test_a_machine_without_gpus_says_so(wanted: str) -> None:
    with pytest.raises(InvalidInputError, match="no GPU"):
        choose_gpus(wanted, [])


@pytest.mark.parametrize(
    ("variable", "there", "names"),
    [
        (None, 2, ["0", "1"]),
        ("3,5", 2, ["3", "5"]),
        ("GPU-1a, GPU-2b", 2, ["GPU-1a", "GPU-2b"]),
        ("", 0, []),
        ("-1", 0, []),
        ("0,1,9", 2, ["0", "1"]),  # CUDA stops at the first that is not there
    ],
)
def test_gpus_that_others_hid_stay_hidden(variable: str | None, there: int, names: list[str]) -> None:
    environment = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert visible_gpus(environment, lambda: there) == names


def test_a_node_sees_one_gpu_and_this_process_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in ("0,1", None):
        if before is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
        with only_gpu("1"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_a_node_that_ends_at_its_start_is_told_with_what_ray_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        pytest.raises(ServiceFailedError, match="GPU 1 ended at its start"),
        further_nodes("127.0.0.1:1", ["1"], 2, lambda: 1),
    ):
        pytest.fail("it cannot have joined")


def test_nodes_that_never_join_are_given_up_and_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(gpu_nodes, "JOIN_S", 0.0)
    script = f"{tmp_path}/ray"
    with open(script, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec tail -f /dev/null\n")
    os.chmod(script, 0o700)
    monkeypatch.setattr(sys, "executable", script)
    with (
        pytest.raises(ServiceFailedError, match="did not join"),
        further_nodes("127.0.0.1:1", ["1", "2"], 2, lambda: 1),
    ):
        pytest.fail("they cannot have joined")
