"""A disk that is small enough to be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PIECE = b"\0" * (1 << 16)
MOUNT = 'mv "$1" "$2" && mkdir "$1" && mount -t tmpfs -o "size=$3m,mode=700" tmpfs "$1"'
FILL = 'cp -a "$2/." "$1" && rm -r "$2"'


class Disk:
    """Where a folder lies, and what can take all the room there.

    Args:
        room: the folder, as this process gets there.
        wrapper: the command by which a program gets there.
    """

    def __init__(self, room: Path, wrapper: Sequence[str] = ()) -> None:
        self.wrapper = wrapper
        self._ballast = room / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(PIECE)

    def clear(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextmanager
def small(folder: Path, *, megabytes: int) -> Iterator[Disk]:
    """Put a folder with all that is in it on a disk of its own.

    A tmpfs; who isn't root gets it in a namespace, in which he is.
    """
    with (_for_root if os.geteuid() == 0 else _for_others)(folder, megabytes) as disk:
        yield disk


@contextmanager
def _for_root(folder: Path, megabytes: int) -> Iterator[Disk]:
    owner = folder.stat()
    subprocess.run(_script(f"{MOUNT} && {FILL}", folder, megabytes), check=True)
    os.chown(folder, owner.st_uid, owner.st_gid)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["/bin/umount", "-l", folder], check=True)


@contextmanager
def _for_others(folder: Path, megabytes: int) -> Iterator[Disk]:
    script = f"{MOUNT} && {FILL} && echo mounted && exec sleep 600"
    # The process that holds the namespace; the server enters it, as a user who is not root there.
    holder = subprocess.Popen(
        ["/usr/bin/unshare", "-rm", *_script(script, folder, megabytes)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout and holder.stdout.readline() == "mounted\n", (
            "a small disk can't be mounted: be root, or let others have user namespaces"
        )
        enter = ["/usr/bin/nsenter", "-U", "-m", "--preserve-credentials", "-t", str(holder.pid)]
        become = ["/usr/bin/unshare", "-U", "--map-user=1000", "--map-group=1000"]
        # Entering has made it forget whose death it was to die with.
        die = ["/usr/bin/setpriv", "--pdeathsig", "QUIT"]
        wrapper = [*enter, "--", *become, "--", *die, "--"]
        yield Disk(Path(f"/proc/{holder.pid}/root{folder}"), wrapper)
    finally:
        holder.kill()
        holder.communicate()


def _script(script: str, folder: Path, megabytes: int) -> list[str]:
    kept = folder.with_name(f"{folder.name}-kept")
    return ["/bin/sh", "-ec", script, "sh", str(folder), str(kept), str(megabytes)]
