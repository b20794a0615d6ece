"""Fetch chosen files of one Hugging Face Hub repository at one commit; `huggingface_hub` is imported at first use."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from engines.weights.errors import WeightsDownloadError
from engines.weights.record import FileRecord, describe_file
from engines.weights.sets import HubGroup, HubSource
from kernels.errors import first_line


def download_repo(
    name: str, source: HubSource, target: Path, endpoint: str | None = None
) -> tuple[str, dict[str, FileRecord]]:
    """Download into `target`; what an interrupted earlier call left there is continued.

    Args:
        name: Weights name, for messages.
        source: Repository, revision and file patterns.
        target: An existing folder.
        endpoint: Another Hub address; None means the library's own setting.

    Returns:
        The commit that `source.revision` meant, and all files by their path inside `target`.

    Raises:
        WeightsDownloadError: Offline, no such repository or revision, no access, or no file matches.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    # requests, httpx or httpx2, by release of huggingface_hub: the base class of its own HTTP error is the client's
    client_error: type[Exception] = HfHubHTTPError.__bases__[0]
    try:
        commit = HfApi(endpoint=endpoint).model_info(source.repo_id, revision=source.revision).sha
        if not commit:
            raise WeightsDownloadError(name, f"the hub names no commit for {source.repo_id}@{source.revision}")
        snapshot_download(
            source.repo_id,
            revision=commit,
            local_dir=target,
            allow_patterns=list(source.allow_patterns),
            endpoint=endpoint,
        )
    except (client_error, LocalEntryNotFoundError, ConnectionError, TimeoutError) as error:
        said = first_line(error, 300)
        raise WeightsDownloadError(
            name, f"{source.repo_id} was not downloaded ({said}); check the connection and pull again"
        ) from error
    files = matching_files(target, source)
    if not files:
        raise WeightsDownloadError(name, f"{source.repo_id} holds no file like {', '.join(source.allow_patterns)}")
    return commit, files


def matching_files(folder: Path, source: HubSource | HubGroup) -> dict[str, FileRecord]:
    """Files in a folder that belong to the weights, by their path inside it; whatever else lies there is left out."""
    present = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: describe_file(path)
        for name, path in present.items()
        if any(fnmatch(name, pattern) for pattern in source.allow_patterns)
    }
