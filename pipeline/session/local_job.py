"""Runs whole jobs in this process, without Ray: `--local`, the tests and the benchmarks use it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import torch

from pipeline.avatars.name import clean_name
from pipeline.avatars.portrait import DEFAULT_LIMITS
from pipeline.avatars.store import AvatarStore, AvatarSummary, avatars_dir
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.families import DEFAULT_FAMILY, find_family
from pipeline.family import Family
from pipeline.media.audio_in import DecodedAudio
from pipeline.session.drawing import needs_rife
from pipeline.session.generate import GenerateResult, OnProgress, generate_file
from pipeline.session.stage_threads import StageThreads
from pipeline.types import Avatar


def avatar_store(home: Path | None = None) -> AvatarStore:
    """The presenters of this machine."""
    return AvatarStore(avatars_dir(home))


def list_presenters(home: Path | None = None) -> list[AvatarSummary]:
    """The presenters of this machine, those of the gallery among them."""
    store = avatar_store(home)
    find_family(DEFAULT_FAMILY).make_gallery(store)
    return store.list()


def register_source(
    source: Path,
    name: str = "",
    home: Path | None = None,
    family: str = DEFAULT_FAMILY,
    weights: Path | None = None,
    temporary: bool = False,
) -> Avatar:
    """Register a portrait or a short video with this machine's store.

    Args:
        source: The file.
        name: Name shown to people; where it is empty, a presenter without a name gets the name of the file.
        home: Data folder; None = `LIVEANCHOR_HOME`.
        family: Family whose renderer will draw the presenter; some families need their weights to register one.
        weights: Folder with the family's weights; None = the usual place.
        temporary: Whether the presenter is for one job only and expires unused, as `AvatarStore.put` describes.

    Raises:
        InvalidInputError: The file holds no usable face, or there is no such family; the reason is in the message.
        LiveAnchorError: The family's weights are missing or of no use.
    """
    rename, name = bool(clean_name(name)), clean_name(name) or clean_name(source.stem)
    owner = find_family(family)
    maker = owner.avatar_maker(weights or owner.folder(home), home)
    return avatar_store(home).put(maker.from_file(source, name, DEFAULT_LIMITS), rename, temporary)


class LocalPipeline:
    """Runs any number of jobs in one process, one after the other; the avatar's family says which stages run.

    Args:
        home: Data folder; None = `LIVEANCHOR_HOME`.
        encoder: How files are encoded.
        rife: How pictures are interpolated, where they are.
        family: Family of the presenters that are made here, the default one included.
        weights: Folder with that family's weights; None = the usual place.
    """

    def __init__(
        self,
        home: Path | None = None,
        encoder: EncoderSettings | None = None,
        rife: RifeSettings | None = None,
        family: str = DEFAULT_FAMILY,
        weights: Path | None = None,
    ) -> None:
        self._home = home
        self._family = family
        self._weights = weights
        self._encoder = encoder or EncoderSettings()
        self._rife = rife or RifeSettings()
        self.store = avatar_store(home)
        self._stages: dict[str, StageThreads] = {}

    @property
    def stages(self) -> StageThreads:
        """The stages of the pipeline's own family; weights are loaded at first use."""
        return self.stages_of(self._family)

    def stages_of(self, family: str) -> StageThreads:
        """The stages of a family; weights are loaded at first use.

        Raises:
            InvalidInputError: There is no such family.
            LiveAnchorError: Its weights are missing or of no use.
        """
        if family not in self._stages:
            owner = find_family(family)
            device = "cuda" if owner.needs_gpu and torch.cuda.is_available() else "cpu"
            self._stages[family] = owner.local_stages(self.store.get, self._weights_of(owner), device, self._rife)
        return self._stages[family]

    def avatar(self, avatar_id: str | None = None) -> Avatar:
        """A registered presenter; the default presenter for None (drawn at first use, then kept).

        Raises:
            InvalidInputError: No presenter has this id.
            LiveAnchorError: The family's weights are missing or of no use.
        """
        if avatar_id:
            self.store.touch(avatar_id)
            return self.store.get(avatar_id)
        owner = find_family(self._family)
        return owner.avatar_maker(self._weights_of(owner), self._home).default(self.store)

    def register(self, source: Path, name: str = "", temporary: bool = False) -> Avatar:
        """Register a portrait or a short video with the pipeline's own family; errors are those of `register_source`."""
        return register_source(source, name, self._home, self._family, self._weights, temporary)

    def generate_file(
        self,
        decoded: DecodedAudio,
        out: Path,
        avatar: Avatar,
        settings: SessionSettings | None = None,
        *,
        seed: int = 0,
        looks: Looks = NEUTRAL_FACE,
        on_progress: OnProgress | None = None,
    ) -> GenerateResult:
        """Make one talking mp4; it appears at `out` when it is complete.

        Raises:
            InvalidInputError: The frame rate cannot be made here, or the presenter's family cannot show the looks.
            LiveAnchorError: The work failed.
        """
        find_family(avatar.family).check_looks(looks)
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
                looks=looks,
                on_progress=on_progress,
            )
        )

    def _weights_of(self, owner: Family) -> Path | None:
        given = self._weights if owner.name == self._family else None
        return given or owner.folder(self._home)

    def close(self) -> None:
        """End the stage threads."""
        for stages in self._stages.values():
            stages.close()
