"""C2PA manifests: finished files of a service carry one that verifies, streams do not, and bad certificates are refused at once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import pytest
import structlog

from kernels.errors import InvalidInputError
from pipeline.media import signing
from pipeline.media.provenance import SOURCE_TYPE
from pipeline.media.signing import ProvenanceSettings, Sign, SigningError, signer_of
from serve_app.config.settings import load_config
from tests.support.certificates import signing_files
from tests.support.http_server import Served, serving
from tests.support.require import missing


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return signing_files(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def c2pa() -> Any:
    try:
        import c2pa as library
    except ImportError:
        missing("EXTRAS", "c2pa-python is not installed: pip install 'liveanchor[c2pa]'")
    return library


@pytest.fixture
def served(tmp_path: Path, files: dict[str, str], c2pa: Any) -> Iterator[Served]:
    with serving(tmp_path) as one, structlog.testing.capture_logs():
        one.host.sign = signer_of(ProvenanceSettings.model_validate(files))
        yield one


def test_a_finished_file_carries_a_manifest_that_verifies(served: Served, c2pa: Any) -> None:
    data = served.generate(seed=7).content
    with c2pa.Reader("video/mp4", io.BytesIO(data)) as reader:
        manifest = reader.get_active_manifest()
        assert reader.get_validation_state() == "Valid"
    assert manifest["claim_generator_info"][0]["name"] == "LiveAnchor"
    [actions] = [one for one in manifest["assertions"] if one["label"].startswith("c2pa.actions")]
    assert [one["digitalSourceType"] for one in actions["data"]["actions"]] == [SOURCE_TYPE]
    with av.open(io.BytesIO(data)) as file:
        assert sum(1 for _ in file.decode(video=0)) == 10 and "Computed" in file.metadata["comment"]
    touched = bytearray(data)
    touched[data.index(b"mdat") + 200] ^= 1
    with c2pa.Reader("video/mp4", io.BytesIO(bytes(touched))) as reader:
        assert reader.get_validation_state() == "Invalid", "one bit of the picture was changed"


def test_a_kept_file_too_and_a_stream_not(served: Served, c2pa: Any) -> None:
    kept = served.generate(path="/api/generate").json()
    with c2pa.Reader("video/mp4", io.BytesIO(served.client.get(kept["url"]).content)) as reader:
        assert reader.get_validation_state() == "Valid"
    with pytest.raises(c2pa.C2paError):
        c2pa.Reader("video/mp4", io.BytesIO(served.generate(stream="true").content))


def test_a_file_that_cannot_be_signed_is_no_file(served: Served) -> None:
    def broken(mp4: bytes) -> bytes:
        raise SigningError("the certificate has ended")

    served.host.sign = broken
    answer = served.generate()
    assert answer.status_code == 500 and answer.json()["code"] == "internal_error"


def test_what_cannot_sign_is_refused_before_there_is_a_file(files: dict[str, str], c2pa: Any, tmp_path: Path) -> None:
    crossed = {"certificate": files["private_key"], "private_key": files["certificate"]}
    wrong = [crossed, files | {"certificate": files["private_key"]}, files | {"algorithm": "ps256"}]
    for one in (*wrong, files | signing_files_of_another(tmp_path)):
        with pytest.raises(InvalidInputError, match=r"provenance\.certificate: they cannot sign"):
            signer_of(ProvenanceSettings.model_validate(one))
    with pytest.raises(InvalidInputError, match=r"provenance\.private_key: got .*nosuch\.pem \(No such file"):
        signer_of(ProvenanceSettings.model_validate(files | {"private_key": str(tmp_path / "nosuch.pem")}))


def signing_files_of_another(folder: Path) -> dict[str, str]:
    """A key that is not the certificate's."""
    return {"private_key": signing_files(folder)["private_key"]}


def test_no_certificate_no_manifest_and_no_library_a_word(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    none: Sign | None = signer_of(ProvenanceSettings())
    assert none is None
    monkeypatch.setattr(signing, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"liveanchor\[c2pa\]"):
        signer_of(ProvenanceSettings.model_validate(files))
    monkeypatch.setenv("LIVEANCHOR_PROVENANCE__CERTIFICATE", files["certificate"])
    with pytest.raises(InvalidInputError, match="certificate and private_key, or neither"):
        load_config()
    monkeypatch.setenv("LIVEANCHOR_PROVENANCE__PRIVATE_KEY", files["private_key"])
    assert load_config().session_host().provenance.certificate == files["certificate"]
