"""What every file says about itself: that its pictures are computed."""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

COMMENT: Final = "Computed video: the face was animated by LiveAnchor; nobody was filmed saying this."
"""Text of the tag `comment`, which players and file managers show."""
SOURCE_TYPE: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's digital source type of media in which something was made by a trained model."""
_XMP_BOX: Final = UUID("be7acfcb-97a9-42e8-9c71-999491e3afac")
"""Type of the box in which an mp4 carries XMP (XMP specification part 3, ISO base media files)."""
_PACKET: Final = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"'
    f' Iptc4xmpExt:DigitalSourceType="{SOURCE_TYPE}"/></rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
)


def xmp_box() -> bytes:
    """The box `uuid` with the digital source type, some 500 bytes; it may stand anywhere on the top level of a file."""
    packet = _PACKET.encode()
    return struct.pack(">I4s", 24 + len(packet), b"uuid") + _XMP_BOX.bytes + packet
