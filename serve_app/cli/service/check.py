"""Goes through all looks at a service, in the order in which one failing explains the next."""

from __future__ import annotations

from urllib.parse import urlsplit

from liveanchor.client import Client
from serve_app.cli.finding import Finding
from serve_app.cli.service import looks, media, work
from serve_app.cli.service.visit import Visit


def check_service(client: Client, api_key: str) -> list[Finding]:
    """Look at a service from outside; it makes one short file and holds one live session for a moment.

    Args:
        client: Shows the key.
        api_key: The key; empty without one.
    """
    with Client(client.url) as stranger:
        return looked_at(Visit(client.url, urlsplit(client.url).hostname or "", api_key, client, stranger))


def looked_at(visit: Visit) -> list[Finding]:
    """The findings of one visit; where nobody answers, that is the only one."""
    found = looks.address(visit)
    if found[0].level != "ok":
        return found
    found += [*looks.clock(visit), looks.keys(visit), looks.ready(visit)]
    if not any(one.level == "missing" and one.name in ("keys", "graph") for one in found):
        found += [work.short_file(visit), work.videos_store(visit), *media.live(visit)]
    return [*found, looks.ray_ports(visit)]
