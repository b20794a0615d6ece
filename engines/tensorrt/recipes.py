"""How each engine is built and compared: `liveanchor engine` knows recipes, and whose they are only they know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import nn

from engines.networks import build
from engines.tensorrt.build import Progress
from engines.tensorrt.errors import UnknownEngineError
from engines.tensorrt.library import Library
from engines.tensorrt.load import EngineSettings, Plan, cached_plan, find_plan
from engines.tensorrt.runtime import TensorRtRuntime
from engines.tensorrt.spec import EngineSpec
from engines.tensorrt.target import Target
from engines.tensorrt.verify import Agreement, compare

Load = Callable[[str], nn.Module]
"""Name as in `engines.networks.build` -> that network with its weights."""


@dataclass(frozen=True)
class Kitchen:
    """Where an engine is built or compared.

    Attributes:
        library: The TensorRT that does it.
        target: The card that it is for.
        settings: How it is built, where it is kept.
        folder: Folder with the public weights; None means where `liveanchor weights` puts them.
        random: Take random weights instead, to try a machine without any.
    """

    library: Library
    target: Target
    settings: EngineSettings
    folder: Path | None = None
    random: bool = False


class Recipe(Protocol):
    """How one engine is exported, checked and run."""

    @property
    def name(self) -> str:
        """Name of the engine: its family and what it does, with a slash between."""
        ...

    @property
    def known_as(self) -> dict[str, str]:
        """What `liveanchor engine list --known` says of it: `engine`, `type`, `batch`, `what`."""
        ...

    def plan(self, kitchen: Kitchen, progress: Progress) -> Plan:
        """The engine, from the cache or built now; needs no GPU where the library builds without one.

        Raises:
            WeightsError: Its weights are not here or of no use.
            EngineExportError, EngineBuildError, EngineCacheError: As their names say.
        """
        ...

    def compare(self, kitchen: Kitchen) -> tuple[Agreement, bool] | None:
        """Run the engine and its float32 network on this GPU.

        Returns:
            How near it comes and whether that is near enough to serve; None where it is not in the cache.

        Raises:
            WeightsError: Its weights are not here or of no use.
            EngineExportError, EngineRunError, EngineCacheError: As their names say.
        """
        ...


@dataclass(frozen=True)
class NetworkRecipe:
    """An engine of a network of ours.

    Attributes:
        spec: What goes in and out.
        make: The float32 module that the engine runs, made of networks.
        public: Folder -> what loads networks with public weights.
        random: Makes networks with random weights.
    """

    spec: EngineSpec
    make: Callable[[Load], nn.Module]
    public: Callable[[Path | None], Load]
    random: Load = build

    @property
    def name(self) -> str:
        """Name of the spec."""
        return self.spec.name

    @property
    def known_as(self) -> dict[str, str]:
        """Its row in the list of engines that can be built."""
        return {
            "engine": self.name,
            "type": str(self.spec.dtype).removeprefix("torch."),
            "batch": f"1..{self.spec.max_batch}",
            "what": self.spec.about,
        }

    def network(self, load: Load | None = None) -> nn.Module:
        """The module, float32 on the CPU, eval mode; with random weights unless `load` has others."""
        return self.make(load or self.random).eval().requires_grad_(False)

    def plan(self, kitchen: Kitchen, progress: Progress) -> Plan:
        """Implement `Recipe`."""
        module = self._with_weights(kitchen)
        return find_plan(self.spec, module, kitchen.library, kitchen.target, kitchen.settings, progress)

    def compare(self, kitchen: Kitchen) -> tuple[Agreement, bool] | None:
        """Implement `Recipe`."""
        module = self._with_weights(kitchen)
        plan = cached_plan(self.spec, module, kitchen.library, kitchen.target, kitchen.settings)
        if plan is None:
            return None
        device = kitchen.settings.device
        runtime = TensorRtRuntime(self.spec, plan.data, kitchen.library, device)
        agreement = compare(self.spec, runtime.run_all, module, device=device)
        return agreement, agreement.passes(self.spec.gate)

    def _with_weights(self, kitchen: Kitchen) -> nn.Module:
        return self.network() if kitchen.random else self.network(self.public(kitchen.folder))


def choose_recipes(text: str, recipes: Iterable[Recipe]) -> list[Recipe]:
    """The recipes that a word stands for.

    Args:
        text: A name, a prefix up to a slash (`rife/4.9`), or `all`.
        recipes: All of them.

    Raises:
        UnknownEngineError: Nothing has that name.
    """
    every = {recipe.name: recipe for recipe in recipes}
    found = [
        recipe
        for name, recipe in every.items()
        if text == "all" or name == text or name.startswith(f"{text.rstrip('/')}/")
    ]
    if not found:
        owners = sorted({name.partition("/")[0] for name in every})
        raise UnknownEngineError("engine", text[:80], ", ".join(("all", *owners, *every)))
    return found
