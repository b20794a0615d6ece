"""A LiveAnchor presenter for LiveKit Agents."""

from livekit.agents import Plugin
from livekit.plugins.liveanchor.api import LiveAnchorAPI, LiveAnchorCapacityError
from livekit.plugins.liveanchor.avatar import AvatarSession
from livekit.plugins.liveanchor.log import logger
from livekit.plugins.liveanchor.version import __version__

__all__ = ["AvatarSession", "LiveAnchorAPI", "LiveAnchorCapacityError", "__version__"]


class LiveAnchorPlugin(Plugin):
    """Names the plugin to the framework."""

    def __init__(self) -> None:
        super().__init__(__name__, __version__, __package__, logger)


Plugin.register_plugin(LiveAnchorPlugin())
