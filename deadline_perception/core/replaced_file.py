"""Files that are replaced as a whole: a reader sees the old content or the new one, also after a power cut."""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
from contextlib import suppress
from pathlib import Path

_ENDING = '.partial'


def replace_file(file: Path, content: str | bytes | memoryview) -> None:
    """Writes beside a file, brings that to disk and renames it. Makes the folder when needed.

    The file has the mode of other new files. What a writer that was killed has left beside it is removed.

    Args:
        file: where it lies; a link there is replaced, not followed.
        content: all of it, text as UTF-8.

    Raises:
        OSError: it cannot be written, such as on a full disk; names the file, which is as it was before.
    """
    place = Path(file)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(place)
        handle, partial = _locked_partial(place)
        try:
            with os.fdopen(handle, 'wb') as stream:
                stream.write(content.encode('utf-8') if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(partial, place)
            _sync_folder(place.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(file)) from error


def _locked_partial(place: Path) -> tuple[int, Path]:
    """A new file beside a place; as long as it is open, no other writer takes it for a leftover."""
    while True:
        partial = place.with_name(f'.{place.name}.{secrets.token_hex(4)}{_ENDING}')
        handle = os.open(
            partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
        )
        try:
            with suppress(
                OSError
            ):  # a file system without locks: no other writer can take one either
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle, partial
        except BaseException:
            os.close(handle)
            partial.unlink(missing_ok=True)
            raise
        os.close(handle)  # another writer was faster than the lock


def _remove_leftovers(place: Path) -> None:
    """Removes what killed writers of this file left: the lock of each ended with its process."""
    for leftover in place.parent.glob(f'.{glob.escape(place.name)}.*{_ENDING}'):
        try:
            handle = os.open(leftover, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone meanwhile, or another user's
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink(missing_ok=True)
        except OSError:  # being written
            pass
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
