"""A file that only grows: what could not be written whole is cut off again."""

import errno
import os
from pathlib import Path

from exploy.atomic_write import sync_folder


class GrowingFile:
    """A new file to append to.

    Raises:
        FileExistsError: If the file exists.
        OSError: If it cannot be created.
    """

    def __init__(self, path: Path):
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        self._size = 0
        self._is_open = True
        sync_folder(path.parent)

    def append(self, data: bytes) -> None:
        """Add data, all of it or nothing.

        Raises:
            OSError: If it cannot be written, for example because the disk is full.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            raise
        self._size += len(data)

    def sync(self) -> None:
        """Bring the data to the disk.

        Raises:
            OSError: If this fails, or the file was removed.
        """
        os.fsync(self._descriptor)
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "The file was removed while it was written")

    def close(self) -> None:
        """Bring the data to the disk and close the file. Does nothing if it is closed.

        Raises:
            OSError: If the data could not be brought to the disk, or the file was removed. It is closed in any case.
        """
        if self._is_open:
            self._is_open = False
            try:
                self.sync()
            finally:
                os.close(self._descriptor)
