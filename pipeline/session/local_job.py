"""The whole job in this process, without Ray: what `--local`, the tests and the benchmarks use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import torch

from engines.face.mesh import FaceMesh
from engines.weights.home import FACE_DIR_ENV, face_weights_dir, liveanchor_home, weights_dir
from engines.weights.pull import pull
from kernels.errors import InvalidInputError
from pipeline.avatars.name import clean_name
from pipeline.avatars.portrait import DEFAULT_LIMITS
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.store import AvatarStore, avatars_dir
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings
from pipeline.families import LocalStageSet, find_family
from pipeline.media.audio_in import DecodedAudio
from pipeline.mini.registration import FAMILY as MINI_FAMILY
from pipeline.mini.registration import register_file
from pipeline.mini.stages import LocalStages
from pipeline.presenter import default_avatar
from pipeline.session.drawing import needs_rife
from pipeline.session.generate import GenerateResult, OnProgress, generate_file
from pipeline.types import Avatar


def avatar_store(home: Path | None = None) -> AvatarStore:
    """The presenters of this machine."""
    return AvatarStore(avatars_dir(home))


def load_face_mesh(home: Path | None = None) -> FaceMesh:
    """The face models, pulled first where they are not here yet.

    Raises:
        InvalidInputError: `LIVEANCHOR_FACE_DIR` names a folder without them.
        LiveAnchorError: They are not here and cannot be pulled.
    """
    folder = face_weights_dir(home)
    if not any(folder.glob("*.tflite")):
        if os.environ.get(FACE_DIR_ENV):
            allowed = "a folder with the two face models; without the variable they are pulled"
            raise InvalidInputError(FACE_DIR_ENV, f"{folder} (no face models)", allowed)
        pull("face", liveanchor_home(home))
    return FaceMesh(folder)


def register_source(
    source: Path,
    name: str = "",
    home: Path | None = None,
    family: str = MINI_FAMILY,
    weights: Path | None = None,
    temporary: bool = False,
) -> Avatar:
    """Register a portrait or a short video with this machine's store.

    Args:
        source: The file.
        name: For people; where it is empty, a presenter without a name gets the file's.
        home: Data folder; None = `LIVEANCHOR_HOME`.
        family: Whose renderer will draw the presenter; others than `mini` need their weights here.
        weights: Folder with its weights; None = the usual place.
        temporary: For one job: see `AvatarStore.put`.

    Raises:
        InvalidInputError: The file holds no usable face, or there is no such family; the reason is in the message.
        LiveAnchorError: The family's weights are missing or of no use.
    """
    rename, name = bool(clean_name(name)), clean_name(name) or clean_name(source.stem)
    if family == MINI_FAMILY:
        return avatar_store(home).put(register_file(source, load_face_mesh(home), name), rename, temporary)
    maker = find_family(family).avatar_maker(weights or weights_dir(family, home))
    try:
        data = source.read_bytes()
    except OSError as error:
        detail = f"{source.name} cannot be read ({error.strerror})"
        raise PortraitError("portrait_unreadable", "an unreadable file", "a picture or a video", detail) from error
    return avatar_store(home).put(maker.from_file(data, name, DEFAULT_LIMITS), rename, temporary)


class LocalPipeline:
    """One process, any number of jobs one after the other; the avatar's family says which stages run.

    Args:
        home: Data folder; None = `LIVEANCHOR_HOME`.
        encoder: How files are encoded.
        rife: How pictures are interpolated, where they are.
        family: Of presenters that are made here, the default one included.
        weights: Folder with its weights; None = the usual place.
    """

    def __init__(
        self,
        home: Path | None = None,
        encoder: EncoderSettings | None = None,
        rife: RifeSettings | None = None,
        family: str = MINI_FAMILY,
        weights: Path | None = None,
    ) -> None:
        self._home = home
        self._family = family
        self._weights = weights
        self._encoder = encoder or EncoderSettings()
        self._rife = rife or RifeSettings()
        self.store = avatar_store(home)
        self._stages: LocalStages | None = None
        self._others: dict[str, LocalStageSet] = {}

    @property
    def stages(self) -> LocalStages:
        """The stages of `mini`; weights are loaded at first use."""
        if self._stages is None:
            self._stages = LocalStages(self.store.get, rife=self._rife)
        return self._stages

    def stages_of(self, family: str) -> LocalStageSet:
        """The stages of a family; weights are loaded at first use.

        Raises:
            InvalidInputError: No such family.
            LiveAnchorError: Its weights are missing or of no use.
        """
        if family == MINI_FAMILY:
            return self.stages
        if family not in self._others:
            device = "cuda" if torch.cuda.is_available() else "cpu"
            folder = self._weights_of(family)
            self._others[family] = find_family(family).local_stages(self.store.get, folder, device, self._rife)
        return self._others[family]

    def avatar(self, avatar_id: str | None = None) -> Avatar:
        """A registered presenter; the default presenter for None (drawn at first use, then kept).

        Raises:
            InvalidInputError: Unknown id.
            LiveAnchorError: The family's weights are missing or of no use.
        """
        if avatar_id:
            self.store.touch(avatar_id)
            return self.store.get(avatar_id)
        if self._family == MINI_FAMILY:
            return default_avatar(self.store)
        return find_family(self._family).avatar_maker(self._weights_of(self._family)).default(self.store)

    def register(self, source: Path, name: str = "", temporary: bool = False) -> Avatar:
        """See `register_source`."""
        return register_source(source, name, self._home, self._family, self._weights, temporary)

    def generate_file(
        self,
        decoded: DecodedAudio,
        out: Path,
        avatar: Avatar,
        settings: SessionSettings | None = None,
        *,
        seed: int = 0,
        on_progress: OnProgress | None = None,
    ) -> GenerateResult:
        """Make one talking mp4; it appears at `out` when it is complete.

        Raises:
            InvalidInputError: A frame rate that cannot be made here.
            LiveAnchorError: The work failed.
        """
        settings, stages = settings or SessionSettings(), self.stages_of(avatar.family)
        if needs_rife(stages.info, settings):
            stages.check_rate(settings.fps)
        return asyncio.run(
            generate_file(
                decoded,
                out,
                avatar,
                stages,
                settings,
                self._encoder,
                seed=seed,
                on_progress=on_progress,
            )
        )

    def _weights_of(self, family: str) -> Path:
        given = self._weights if family == self._family else None
        return given or weights_dir(family, self._home)

    def close(self) -> None:
        """End the stage threads."""
        if self._stages is not None:
            self._stages.close()
        for stages in self._others.values():
            stages.close()
