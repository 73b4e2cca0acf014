"""Whether the disk that fills up does: each kind of call is refused where it should be, and all else goes through."""

import errno
import itertools
import os

import full_disk


def refused(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return None


def run(folder, disk, seed):
    inside, outside = folder / "inside", folder / "outside"
    for place in (inside, outside):
        place.mkdir()
        for name in ("old", "file"):
            (place / name).write_bytes(b"old")
    for kind in (full_disk.ROOM, full_disk.SYNC, full_disk.NAMES):
        disk.fill(inside, calls=0, says=errno.EIO, kinds=kind)
        for place in (inside, outside):
            for of_kind, calls in calls_in(place).items():
                for name, call in calls.items():
                    before = disk.refused
                    expected = errno.EIO if (place, of_kind) == (inside, kind) else None
                    assert refused(call) == expected and disk.refused - before == bool(expected), (name, of_kind, kind)
        assert (inside / "old").read_bytes() == b"old"
        disk.free()
    file = os.open(inside / "file", os.O_WRONLY)
    disk.fill(inside, room=10)
    assert os.write(file, b"12345678") == 8 and os.write(file, b"90abc") == 2, "what fits is taken"
    assert refused(lambda: os.write(file, b"c")) == errno.ENOSPC
    disk.fill(inside, calls=2)
    assert [refused(lambda: os.fsync(file)) for _ in range(4)] == [None, None, errno.ENOSPC, errno.ENOSPC]
    disk.free()
    assert os.write(file, b"c") == 1 and disk.refused
    return ""


def calls_in(place):
    """{kind: {name: call}}, which change nothing that the next one needs."""
    file = os.open(place / "file", os.O_RDWR)

    def there_and_back(*names):
        for a, b in itertools.pairwise(names):
            os.replace(place / a, place / b)

    return {
        full_disk.ROOM: {
            "write": lambda: os.write(file, b"x"),
            "pwrite": lambda: os.pwrite(file, b"x", 0),
            "writev": lambda: os.writev(file, [b"x"]),
            "ftruncate": lambda: os.ftruncate(file, 9),
            "open": lambda: (place / f"new{file}").open("w").close(),
            "mkdir": lambda: (place / f"folder{file}").mkdir(),
        },
        full_disk.SYNC: {"fsync": lambda: os.fsync(file), "fdatasync": lambda: os.fdatasync(file)},
        full_disk.NAMES: {
            "rename": lambda: there_and_back("old", "other", "old"),
            "unlink": lambda: (os.link(place / "old", place / f"link{file}"), (place / f"link{file}").unlink()),
        },
        0: {"read": lambda: os.pread(file, 1, 0), "open what is there": lambda: (place / "old").open("a").close()},
    }


if __name__ == "__main__":
    full_disk.main(run)
