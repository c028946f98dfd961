"""What memory this process keeps between two frames: none of what loading left behind, all that a frame needs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import re
import resource
from pathlib import Path

from deadline_perception.core.stopwatch import now_ms

_HUGE_PAGE_BYTES = 2**21
_MOST_COLLAPSING_MS = 1000.0
_PRESENT = 0.9  # with half of one a node starts 0.3 s later, holds 30 MB more, and looks first 3 to 4 % faster
_MADV_DONTNEED = 4  # of sys/mman.h
_MADV_COLLAPSE = 25  # of it, since Linux 6.1
_MCL_ON_FAULT = 7  # of it: MCL_CURRENT, MCL_FUTURE and MCL_ONFAULT, as torch maps gigabytes that it never touches
_CAP_IPC_LOCK = 14  # of linux/capability.h
_MBIND = {
    'x86_64': 237,
    'aarch64': 235,
}  # number of the system call, which glibc has no function for
_NO_FILE = re.compile(r'([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ \S+\s*$')
_ANONYMOUS = re.compile(r'([0-9a-f]+)-([0-9a-f]+) r\S\Sp \S+ \S+ 0\s*(?:\[heap\])?$')
_MAPPING = re.compile(r'([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(/.*)?')


def give_back_memory() -> None:
    """Gives back to the system what loading needed and frames do not: memory that was allocated and freed again, and
    pages of libraries, such as those for a GPU that a CPU does not have. What is needed after all, is read again from
    the system's file cache, so a frame should run once after this.

    The settings that `missing_environment` looks for keep glibc from giving back by itself, which would cost every
    frame time. Takes some tens of ms, while which other threads cannot allocate. Memory that is locked stays.
    """
    gc.collect()
    trim_memory()
    library = ctypes.CDLL(None)
    for begin, end in _file_pages():
        library.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def trim_memory() -> None:
    """Gives back to the system what was allocated and freed again, unless it is locked, and joins mappings.

    OpenVINO binds the memory of each compiled segment to a NUMA node, which cuts the C library's memory into mappings
    of some pages that stay when the segment goes: 400 more with each network, of 65,530 that a process may have. What
    is in use stays on its node.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, 'malloc_trim'):  # of glibc
        library.malloc_trim(0)
    mbind = _MBIND.get(platform.machine())
    if mbind is None:
        return
    for begin, end in _cut_memory():
        place = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        library.syscall(mbind, *place, 0, None, 0, 0)  # MPOL_DEFAULT of linux/mempolicy.h


def _cut_memory() -> list[tuple[int, int]]:
    """Begin and end of memory of no file that lies in one piece, and in several mappings of the same kind."""
    found: list[tuple[int, int, int]] = []
    for line in Path('/proc/self/maps').read_text(encoding='utf-8', errors='replace').splitlines():
        mapping = _NO_FILE.match(line)
        if not mapping:
            continue
        begin = int(mapping[1], 16)
        end = int(mapping[2], 16)
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end, found[-1][2] + 1
        else:
            found.append((begin, end, 1))
    return [(begin, end) for begin, end, pieces in found if pieces > 1]


def _file_pages() -> list[tuple[int, int]]:
    """Begin and end of what is mapped from files to be read or executed, and holds nothing that the files do not."""
    found = []
    for line in Path('/proc/self/smaps').read_text(encoding='utf-8', errors='replace').splitlines():
        if mapping := _MAPPING.match(line):
            is_file = mapping[3] in ('r-xp', 'r--p') and mapping[4]
            place = (int(mapping[1], 16), int(mapping[2], 16)) if is_file else None
        elif place and line.split() == ['Anonymous:', '0', 'kB']:
            found.append(place)
    return found


def use_huge_pages() -> None:
    """Moves what lies in memory, and in no file, to pages of 2 MB, where nine tenths of one are there.

    The processor then looks up fewer addresses, which it has to do anew after each pause. Where the kernel cannot (before
    Linux 6.1, with `transparent_hugepage` at `never`, in a sandbox without page maps) all stays as it is. Takes some tenths
    of a second, and at most one: what a program around a detector holds besides may be gigabytes.
    """
    trim_memory()
    end_ms = now_ms() + _MOST_COLLAPSING_MS
    library = ctypes.CDLL(None)
    page_bytes = resource.getpagesize()
    maps = Path('/proc/self/maps').read_text(errors='replace')
    with contextlib.suppress(OSError), open('/proc/self/pagemap', 'rb', buffering=0) as pagemap:
        for mapping in filter(None, map(_ANONYMOUS.match, maps.splitlines())):
            first = -(-int(mapping[1], 16) // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
            last = int(mapping[2], 16) - _HUGE_PAGE_BYTES
            for address in range(first, last + 1, _HUGE_PAGE_BYTES):
                if now_ms() > end_ms:
                    return
                pagemap.seek(address // page_bytes * 8)
                flags = pagemap.read(_HUGE_PAGE_BYTES // page_bytes * 8)
                present = sum(highest >> 7 for highest in flags[7::8])
                if present * page_bytes >= _PRESENT * _HUGE_PAGE_BYTES:
                    size = ctypes.c_size_t(_HUGE_PAGE_BYTES)
                    library.madvise(ctypes.c_void_p(address), size, _MADV_COLLAPSE)


def lock_pages() -> str:
    """Keeps in memory what this process has touched and what it will touch. Returns why it cannot be, else nothing.

    It is done only where no limit can be met: beyond one, every allocation would fail.
    """
    if not may_lock_pages():
        return 'locked memory is not permitted without a limit (limit memlock)'
    if ctypes.CDLL(None, use_errno=True).mlockall(_MCL_ON_FAULT):
        return f'locked memory is refused ({os.strerror(ctypes.get_errno())})'
    return ''


def unlock_pages() -> None:
    """Ends what `lock_pages` began."""
    ctypes.CDLL(None).munlockall()


def may_lock_pages() -> bool:
    """Whether this process may lock as much memory as it likes."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    capabilities = re.search(
        r'^CapEff:\s*([0-9a-f]+)$', Path('/proc/self/status').read_text(), re.MULTILINE
    )
    return capabilities is not None and bool(int(capabilities[1], 16) >> _CAP_IPC_LOCK & 1)
