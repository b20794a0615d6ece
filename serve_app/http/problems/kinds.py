"""Every kind of problem: its status, its title, what it means and what to do. `/problems` and docs/problems.md are made from it."""

from __future__ import annotations

from typing import Final, NamedTuple

TYPE_PREFIX: Final = "/problems/"


class ProblemKind(NamedTuple):
    """What is fixed about one kind of problem.

    Attributes:
        status: HTTP status.
        title: Short title, the same every time.
        meaning: What happened and what to do, one or two sentences for readers of the list of kinds; `code` marks names.
        detail: Text for callers in place of the error's own words, which may name our paths and addresses; empty where those
            words help and name none.
    """

    status: int
    title: str
    meaning: str
    detail: str = ""


_LATER: Final = "Send the same request again a little later."
OURS: Final = "This is our failure, not yours. Tell the operator the request_id; the server's log has the reason."
_VALUE: Final = "`field` names the field, `got` what came, `allowed` what is accepted. Send another value."

KINDS: Final[dict[str, ProblemKind]] = {
    # the request
    "invalid_input": ProblemKind(422, "A field has a value that cannot work", _VALUE),
    "invalid_shape": ProblemKind(422, "A field has a value that cannot work", _VALUE),
    "missing_field": ProblemKind(
        422,
        "A field is missing",
        "`field` is needed and did not come. Files and values are parts of a form, or keys of the JSON body.",
    ),
    "unknown_field": ProblemKind(
        422,
        "A field is not known",
        "The route has no field of this name, most often because it is misspelt; `allowed` lists all.",
    ),
    "duplicate_field": ProblemKind(
        422, "A field came more than once", "The service does not guess which one counts. Send the field once."
    ),
    "conflicting_fields": ProblemKind(
        422,
        "Two fields exclude each other",
        "Both came, but only one of them can count, as with `avatar_id` and `portrait`. Leave one out.",
    ),
    "misplaced_field": ProblemKind(
        422,
        "A field is in the wrong place",
        "A field of the body came in the address, where it would be overlooked. Move it into the body.",
    ),
    "field_too_large": ProblemKind(
        413,
        "A field is too large",
        "One field has more bytes than `allowed`: prose holds 40 kB, other text fields 1 KiB, files what the operator set.",
    ),
    "body_too_large": ProblemKind(
        413,
        "The request is too large",
        "The whole body has more bytes than `allowed`. Send less, or ask the operator for a higher limit.",
    ),
    "upload_too_slow": ProblemKind(
        408,
        "The upload is too slow",
        "The body stopped coming, or took longer than `allowed`. Send it again, over a better connection.",
    ),
    "body_malformed": ProblemKind(
        400,
        "The body cannot be read",
        "The body is not what its `Content-Type` says, or it was cut short. Check how the client builds it.",
    ),
    "unsupported_content_type": ProblemKind(
        415,
        "The content type is not supported",
        "The route does not read bodies of this `Content-Type`. Send one that `allowed` names.",
    ),
    "range_not_satisfiable": ProblemKind(
        416,
        "The byte range lies outside the file",
        "`Content-Range` of the answer tells the file's size. Ask for bytes within it.",
    ),
    "bad_request": ProblemKind(
        400,
        "The request cannot be read",
        "The request is not valid for this address. `detail` says what is wrong with it.",
    ),
    "not_found": ProblemKind(
        404, "There is nothing at this address", "No route has this address. `/docs` lists all routes."
    ),
    "method_not_allowed": ProblemKind(
        405,
        "The address does not take this method",
        "The address exists, for other methods. The header `Allow` lists them.",
    ),
    # the caller
    "key_missing": ProblemKind(
        401,
        "A key is needed",
        "The request shows no API key. Send the header `Authorization: Bearer KEY`; the operator makes keys with "
        "`liveanchor keys create`.",
    ),
    "key_invalid": ProblemKind(
        401,
        "The key is not valid",
        "The API key is misspelt, has expired or was revoked, or the session token is over. Get a new token, or ask the "
        "operator for a new key.",
    ),
    "scope_missing": ProblemKind(
        403,
        "The key does not allow this",
        "`missing_scope` names what the key lacks. Ask the operator for a key that has it.",
    ),
    "quota_exceeded": ProblemKind(
        429,
        "The key has used up what it may",
        "`violated-policies` names the limit: requests or live offers in a minute, jobs or live sessions at once. Wait for "
        "`Retry-After`; the header `RateLimit` tells what is left.",
    ),
    "keys_off": ProblemKind(
        409,
        "No keys are needed here",
        "The service answers without keys, so there is nothing to exchange. Send requests without one.",
    ),
    "url_refused": ProblemKind(
        422,
        "The address is not fetched",
        "Files are fetched from public hosts alone, and sessions published to them alone, by http and https, without user names, "
        "at the usual ports. Send the file, or ask the operator.",
    ),
    "url_unreachable": ProblemKind(
        422,
        "The file cannot be fetched",
        "The address does not answer, answers with an error, or its file is too large or slow. Check that it opens without login.",
    ),
    # the speech
    "audio_invalid": ProblemKind(
        422, "The speech cannot be used", "The audio was read but cannot be used; `detail` says why. Send other audio."
    ),
    "audio_unreadable": ProblemKind(
        422,
        "The speech cannot be read",
        "The bytes are not an audio or video file, or the file is damaged. Check that the file plays, and that the file itself is "
        "sent and not its name (with curl: `audio=@FILE`).",
    ),
    "audio_no_stream": ProblemKind(
        422, "The file has no sound", "It is a picture, or a video without sound. Send a file with speech."
    ),
    "audio_empty": ProblemKind(
        422, "The speech is empty", "The file can be read, but it holds no samples. Record it again."
    ),
    "audio_too_long": ProblemKind(
        422, "The speech is too long", "It lasts longer than `allowed`. Cut it into several jobs."
    ),
    "text_too_long": ProblemKind(
        422, "The text is too long", "To say it takes longer than `allowed`. Cut it into several jobs."
    ),
    "voice_missing": ProblemKind(
        501,
        "The service has no voice for text",
        "Neither the embedded voice is installed (extra `speech`) nor a server of voices is set (`voices.url`). Send audio, or ask "
        "the operator for one of them.",
        "Send audio, or ask the operator to install the extra `speech` or to set `voices.url`.",
    ),
    "voice_unreachable": ProblemKind(
        503,
        "The voice does not answer",
        "The server of voices that the operator set cannot be reached, or has too much work. Send the text again a little later; "
        "if that does not help, tell the operator.",
        _LATER,
    ),
    "voice_failed": ProblemKind(
        502,
        "The voice could not say the text",
        "The server of voices refused the text or answered something that is no speech, or the voice made no sound of it (the "
        "embedded one knows English). Send other text or audio; if that does not help, tell the operator the `request_id`.",
        "The voice refused this text or made no sound of it. Send other text, or audio; the server's log has the reason.",
    ),
    "audio_too_large": ProblemKind(
        413,
        "The speech file is too large",
        "It has more bytes than `allowed`. Send a compressed format, such as FLAC or MP3.",
    ),
    "audio_unsupported": ProblemKind(
        422,
        "The kind of speech file is not supported",
        "Its sample rate, channels or sample format lie outside of `allowed`. Convert it.",
    ),
    # the portrait
    "portrait_unreadable": ProblemKind(
        422,
        "The picture cannot be read",
        "The bytes are not a picture or video, or the file is damaged. Check that it opens, and that the file itself is sent "
        "and not its name (with curl: `portrait=@FILE`).",
    ),
    "portrait_unsupported": ProblemKind(
        422,
        "The kind of picture is not supported",
        "Pictures of this kind, such as GIF or TIFF, are not read. Export it as JPEG or PNG.",
    ),
    "portrait_animated": ProblemKind(
        422, "The picture is animated", "It has several frames. Send one of them as a still picture, or a video."
    ),
    "portrait_too_large": ProblemKind(
        413, "The picture is too large", "It has more bytes or pixels than `allowed`. Scale it down."
    ),
    "portrait_too_small": ProblemKind(
        422,
        "The picture is too small",
        "The picture, or the face in it, has too few pixels. Send a larger one, or crop it less.",
    ),
    "portrait_no_face": ProblemKind(
        422, "The picture shows no face", "No face was found. Send a picture of one person who looks into the camera."
    ),
    "portrait_not_a_face": ProblemKind(
        422,
        "The picture shows no human face",
        "Something like a face was found, but it is not human or too much of it is hidden. Send a photo of a person.",
    ),
    "portrait_two_faces": ProblemKind(
        422,
        "The picture shows more than one face",
        "With several faces of similar size it is unclear who should speak. Crop the picture to one person.",
    ),
    "portrait_turned_away": ProblemKind(
        422,
        "The face is turned away",
        "The head is turned, nodded or tilted too far, or the picture lies on its side. The face must look into the camera.",
    ),
    "portrait_cut_off": ProblemKind(
        422, "The face is cut off", "A part of the face lies outside the picture. Send one that shows all of it."
    ),
    "portrait_eyes_closed": ProblemKind(
        422, "The eyes are closed", "They cannot be opened afterwards. Send a picture with open eyes."
    ),
    "portrait_mouth_open": ProblemKind(
        422,
        "The mouth is wide open",
        "It cannot be drawn closed in silence. Send a picture with closed lips or a smile.",
    ),
    "portrait_video_too_long": ProblemKind(
        422, "The video is too long", "It lasts longer than `allowed`. Cut it, or send one picture of it."
    ),
    # what is kept
    "avatar_not_found": ProblemKind(
        404,
        "There is no such presenter",
        "It was removed, or it was temporary and was not used for a while. `GET /avatars` lists the presenters that exist; the "
        "same picture, sent again, gives the same id.",
    ),
    "result_not_found": ProblemKind(
        404,
        "There is no such result",
        "No result has this id, or it expired more than a day ago. Make the video again.",
    ),
    "result_expired": ProblemKind(
        410,
        "The result is not kept any more",
        "It was kept until `expires_at`, or was removed to make room for newer ones. Make the video again.",
    ),
    "result_too_large": ProblemKind(
        413,
        "The result is too large to be kept",
        "The file alone is larger than the store of results. Use `POST /generate`, which keeps nothing.",
    ),
    "avatars_full": ProblemKind(
        507,
        "No more presenters can be registered",
        "There are as many as the operator allows, and all were registered or are in use. Remove some, or use an existing one.",
        "Use a registered presenter, or remove presenters that are not needed: DELETE /avatars/{id}. Temporary ones make room by "
        "themselves once they have not been used for some minutes.",
    ),
    "avatar_shared": ProblemKind(
        403,
        "The presenter belongs to everybody",
        "It was registered for all who use the service, so one of them may use it and not remove it. Ask the operator.",
    ),
    "avatar_storage": ProblemKind(
        507,
        "The presenter cannot be stored",
        "The disk of the presenters is full or cannot be written. Use a registered presenter; the operator must make room.",
        "Presenters cannot be stored just now. Use a registered one, and tell the operator the request_id.",
    ),
    "avatar_bundle_damaged": ProblemKind(
        500,
        "The presenter's files are damaged",
        "What is kept of this presenter cannot be read any more. Register its picture again, or use another presenter.",
        "Register the presenter's picture again, or use another presenter. The server's log has the reason under the request_id.",
    ),
    "avatar_bundle_schema": ProblemKind(
        409,
        "The presenter was made by another version",
        "This version of the service does not read the format of its files. Register its picture again.",
        "Register the presenter's picture again: this version of the service does not read files that another version wrote.",
    ),
    "stale_avatar": ProblemKind(
        409,
        "The presenter was made with other models",
        "The models that the service runs have changed since it was registered. Register its picture again.",
    ),
    "store_full": ProblemKind(
        507,
        "The store has no room",
        "The place of presenters or results is full. Use `POST /generate`, which keeps nothing, or a registered presenter; "
        "the operator must make room.",
        "The store is full. Tell the operator the request_id.",
    ),
    # videos that are made in the background
    "video_not_found": ProblemKind(
        404,
        "There is no such video",
        "It was deleted, ended too long ago, or belongs to another owner. `GET /v1/videos` lists those that there are.",
    ),
    "video_not_ready": ProblemKind(
        409,
        "The video is not made yet",
        "It waits or is being made. Ask `GET /v1/videos/{id}` until `status` is `completed`, then fetch the content.",
    ),
    "video_state": ProblemKind(
        409,
        "The video is in a state in which this cannot be done",
        "`got` is its state, `allowed` the states in which it can be done. A video that failed has no content; "
        "`POST /v1/videos/{id}/retry` makes it after all.",
    ),
    "idempotency_mismatch": ProblemKind(
        422,
        "The key belongs to another request",
        "Another request came with the same `Idempotency-Key` within 24 hours. Repeat a request with all its fields as they were, "
        "or take a new key.",
    ),
    # live sessions
    "session_not_found": ProblemKind(
        404, "There is no such live session", "No session has this id, or it ended a while ago. Make a new offer."
    ),
    "session_lost": ProblemKind(404, "The live session was lost", "The process that held it died. Make a new offer."),
    "session_ended": ProblemKind(
        410, "The live session has ended", "`reason` says why. Make a new offer; after `peer_lost` that helps at once."
    ),
    "no_common_codec": ProblemKind(
        406,
        "The offer has no codec that this service sends",
        "Pictures are H.264 for decoders of Baseline, Main or High, in packetization-mode 0 or 1, and sound is Opus. "
        "Offer to receive both.",
    ),
    "ice_restart": ProblemKind(
        422, "An ICE restart is not possible", "The candidates belong to another ICE session. Make a new offer instead."
    ),
    "unknown_viewer": ProblemKind(
        404,
        "There is no such viewer",
        "This viewer stopped watching, or never was. Make a new offer to `/stream/whep/{session_id}`.",
    ),
    "peer_closed": ProblemKind(
        410,
        "The connection has ended",
        "The WebRTC connection is closed, so nothing can be changed about it. Make a new offer.",
    ),
    "too_many_viewers": ProblemKind(
        503,
        "The session has as many viewers as it may have",
        "One must leave before another can come: wait, or ask the operator for more.",
        _LATER,
    ),
    "ingest_refused": ProblemKind(
        422,
        "The ingest refuses the session",
        "The WHIP ingest that `url` names answered with an error, or takes no H.264 or no Opus; `got` says which. Check `url` and "
        "`token`.",
    ),
    "ingest_unreachable": ProblemKind(
        503,
        "The ingest cannot be reached",
        "It does not answer, or takes no session now. A publication tries again by itself; "
        "`GET /stream/webrtc/{session_id}/publish` tells how that goes.",
        _LATER,
    ),
    "too_many_publications": ProblemKind(
        409,
        "The session is sent to as many ingests as it may be",
        "End one of its publications before another begins, or ask the operator for more.",
    ),
    "wrong_drive": ProblemKind(
        409,
        "The session is driven by something else",
        'It listens to its client\'s microphone and takes no pushed speech. Make the offer with `drive: "push"`.',
    ),
    "audio_in_use": ProblemKind(
        409,
        "Another connection already speaks in this session",
        "Another WebSocket pushes speech, and two speakers never mix. Close that one first, or send "
        "files to `/speak`, which queues them.",
    ),
    "queue_full": ProblemKind(
        409,
        "The queue of speech is full",
        "Send the rest when some of the waiting speech was spoken, or interrupt the session.",
    ),
    "draining": ProblemKind(503, "The service is about to end", "It takes videos alone. Ask again later.", _LATER),
    "no_capacity": ProblemKind(
        503,
        "There is no room for one more live session",
        "All places are taken, or another session would slow the others down. Wait for `Retry-After`, then offer again.",
        _LATER,
    ),
    "livekit_missing": ProblemKind(
        501,
        "The service cannot join LiveKit rooms",
        "The package `livekit` is not installed (extra `livekit`). Ask the operator for it.",
        "Ask the operator to install the extra `livekit`.",
    ),
    "room_unreachable": ProblemKind(
        503, "The LiveKit server does not answer", "The room was not joined. Check `url`, then ask again.", _LATER
    ),
    # later
    "overloaded": ProblemKind(
        503,
        "The service has as much work as it takes",
        "All places for jobs or all memory for uploads are taken. Wait for `Retry-After`, then send the request again.",
        _LATER,
    ),
    "too_many_videos": ProblemKind(
        503,
        "As many videos wait as may wait",
        "The queue of videos has as many as the operator allows. Wait for `Retry-After`, then send the request again.",
        _LATER,
    ),
    "jobs_unavailable": ProblemKind(
        503,
        "The store of videos cannot be used",
        "Its disk is full, or it does not answer. Nothing was accepted that is not kept. Send the request again a little later; "
        "if that does not help, tell the operator.",
        _LATER,
    ),
    "not_ready": ProblemKind(
        503,
        "The service is not ready yet",
        "It is starting, or a part of it does not answer. `/readyz` answers 200 when it is ready; "
        "if it never does, tell the operator.",
        _LATER,
    ),
    "stage_lost": ProblemKind(
        503,
        "A part of the service went away while it worked",
        "It is replaced automatically. Send the request again a little later.",
        _LATER,
    ),
    "deadline_exceeded": ProblemKind(
        503,
        "The work took too long",
        "The service is slower than it should be, most often because it has too much work. Send the request again a little later.",
        _LATER,
    ),
    "store_unreachable": ProblemKind(
        503,
        "The store of presenters or results does not answer",
        "The folder or the object store cannot be reached. Send the request again a little later; "
        "if that does not help, tell the operator.",
        _LATER,
    ),
    "weights_download": ProblemKind(
        503,
        "The service has no models for portraits yet",
        "New portraits need models that were not downloaded. Registered presenters work; the operator runs "
        "`liveanchor weights pull face`.",
        "Use a registered presenter or the default one, or ask the operator to run: liveanchor weights pull face",
    ),
    "weights_storage": ProblemKind(
        507,
        "The models for portraits cannot be stored",
        "New portraits need models, and the folder for them is full or cannot be written. Registered presenters work; the operator "
        "must make room.",
        "Use a registered presenter or the default one, and tell the operator the request_id.",
    ),
    # ours
    "internal_error": ProblemKind(
        500,
        "Something went wrong here",
        "The service has an unforeseen fault. Tell the operator the `request_id`: the server's log has "
        "the reason under it.",
        OURS,
    ),
}
