"""The files of a folder that Spark writes to: on this machine, in HDFS, or in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqueue.spark.errors import CompactionFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """The files below a root, through Hadoop's FileSystem, which reaches the same places as Spark.

    Names are relative to the root, with slashes. A missing folder has no names. Deleting a missing
    file does nothing.

    Args:
        spark: a session that is no client of Spark Connect: see `are_within_reach`.
        root: a path or a URL.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._jvm: Any = spark._jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._root = root
        self._system: Any = self._java(root).getFileSystem(configuration)

    def path(self, name: str) -> str:
        """Return the path or URL of a file or folder."""
        return f"{self._root}/{name}"

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, in order, without its path."""
        path = self._java(self.path(folder))
        if not self._system.exists(path):
            return []
        return sorted(each.getPath().getName() for each in self._system.listStatus(path))

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of each file below a folder, by name relative to the folder."""
        path = self._java(self.path(folder))
        if not self._system.exists(path):
            return {}
        found = {}
        before = len(self._system.resolvePath(path).toString()) + 1
        files = self._system.listFiles(path, True)
        while files.hasNext():
            each = files.next()
            found[each.getPath().toString()[before:]] = int(each.getLen())
        return found

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its content."""
        self._system.delete(self._java(self.path(name)), True)

    def move(self, name: str, to: str) -> None:
        """Move a file; replace a file of the new name.

        Raises:
            CompactionFailed: the file system refuses the move.
        """
        target = self._java(self.path(to))
        self._system.mkdirs(target.getParent())
        self._system.delete(target, False)
        if not self._system.rename(self._java(self.path(name)), target):
            raise CompactionFailed(f"Moving {self.path(name)} to {self.path(to)} failed.")

    def write(self, name: str, text: str) -> None:
        """Write a small file; a reader sees all of it or none."""
        draft = f"{name}.draft"
        stream = self._system.create(self._java(self.path(draft)), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.move(draft, name)

    def read(self, name: str) -> str:
        """Return the text of a small file."""
        stream = self._system.open(self._java(self.path(name)))
        try:
            read: bytes = self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)
            return read.decode()
        finally:
            stream.close()

    def _java(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def are_within_reach(spark: SparkSession) -> bool:
    """Return whether `Files` can be used: a client of Spark Connect has no Java of its own."""
    return getattr(spark, "_jvm", None) is not None
