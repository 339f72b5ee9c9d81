# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a card, through the library that also serves UCX in this process."""

import ctypes
import functools
import os
import warnings
import weakref

from . import ucx_versions
from .core import open_core

_PROBLEM_SIZE = 1024


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's C API: ctypes alone gives no address of read-only memory."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _HostMemory:
    """Contiguous memory of an object with the buffer protocol, held while the context lasts."""

    _WRITABLE = 1

    def __init__(self, source, writable):
        self._view = _PyBuffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(source), ctypes.byref(self._view),
                                            self._WRITABLE if writable else 0)
        self.address = self._view.buf
        self.nbytes = self._view.len

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._view))


@functools.lru_cache(maxsize=None)
def _core():
    """The library with its functions declared. A UCX too old for the modules, such as Open MPI's own, would crash on this
    memory without a word."""
    for library, version in ucx_versions.find_loaded_too_old():
        warnings.warn(f"{library} is UCX {version}, which takes Gaudi memory for host memory and crashes on it: this process "
                      "needs UCX 1.22 or later", RuntimeWarning, stacklevel=4)
    core = open_core()
    pointer, length, problem = ctypes.c_void_p, ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    core.gaudi_buffer_allocate.argtypes = [ctypes.c_char_p, length, ctypes.POINTER(pointer), *problem]
    core.gaudi_buffer_free.argtypes = [pointer, *problem]
    core.gaudi_buffer_write.argtypes = [pointer, pointer, length, *problem]
    core.gaudi_buffer_read.argtypes = [pointer, pointer, length, *problem]
    core.gaudi_buffer_fill.argtypes = [pointer, ctypes.c_int, length, *problem]
    core.gaudi_buffer_card.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t]
    core.gaudi_flush_rdma_writes.argtypes = [pointer, *problem]
    return core


def _call(name, *arguments):
    """Calls a function of the library; an error becomes an OSError with its sentence."""
    problem = ctypes.create_string_buffer(_PROBLEM_SIZE)
    code = getattr(_core(), name)(*arguments, problem, len(problem))
    if code != 0:
        raise OSError(code, problem.value.decode(errors="replace") or os.strerror(code))


def flush(memory=None):
    """Makes what RDMA has written to a card so far visible to its engines: before a kernel of the framework, such as an
    operation of PyTorch on the tensor, reads memory that was received without a copy. UCX's own copies and Buffer.read need
    no such call.

    memory is a Buffer or a device address; without it, all cards that this process has open are flushed.
    """
    _call("gaudi_flush_rdma_writes", memory.address if isinstance(memory, Buffer) else memory)


class Buffer:
    """Memory of a Gaudi card, for programs that hand addresses to UCX, NIXL or MPI.

    device is a module id (3 or "module:3") or a PCI address, as `ucx_gaudi info` prints them; without it the library takes a
    card that this process has open, else the one that HLS_MODULE_ID names, else the first of HABANA_VISIBLE_MODULES (or of
    all) that is free. Data is whatever has the buffer protocol and is contiguous: bytes, bytearray, memoryview, numpy
    arrays.

    There is no `__dlpack__` on purpose: DLPack has no device type for Gaudi, and a consumer that took the address for
    host memory would dereference it on the host and crash.
    """

    def __init__(self, nbytes, device=None):
        address = ctypes.c_void_p()
        _call("gaudi_buffer_allocate", str(device).encode() if device is not None else None, nbytes, ctypes.byref(address))
        self._address = address.value
        self._nbytes = nbytes
        self._free = weakref.finalize(self, _call, "gaudi_buffer_free", self._address)

    @property
    def address(self):
        """The device address, an int. The processor cannot access it."""
        return self._live()

    @property
    def nbytes(self):
        return self._nbytes

    @property
    def card(self):
        """The PCI address of the card that has the memory."""
        bus_id = ctypes.create_string_buffer(64)
        code = _core().gaudi_buffer_card(self._live(), bus_id, len(bus_id))
        if code != 0:
            raise OSError(code, os.strerror(code))
        return bus_id.value.decode()

    def write(self, data, offset=0):
        """Copies data to the card; returns when it is there."""
        with _HostMemory(data, writable=False) as host:
            _call("gaudi_buffer_write", self._at(offset, host.nbytes), host.address, host.nbytes)

    def read(self, nbytes=None, offset=0):
        """Copies nbytes, or all from the offset on, from the card."""
        data = bytearray(max(self._nbytes - offset, 0) if nbytes is None else nbytes)
        self.read_into(data, offset)
        return bytes(data)

    def read_into(self, target, offset=0):
        """Fills all of a writable object with the bytes from the offset on."""
        with _HostMemory(target, writable=True) as host:
            _call("gaudi_buffer_read", host.address, self._at(offset, host.nbytes), host.nbytes)

    def memset(self, byte):
        """Sets every byte of the buffer."""
        if not 0 <= byte <= 255:
            raise ValueError(f"{byte} is not a byte: 0 to 255")
        _call("gaudi_buffer_fill", self._live(), byte, self._nbytes)

    def free(self):
        """Frees the memory; a second call does nothing. Leaving a `with` block or losing the last reference does it too."""
        self._free()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

    def __repr__(self):
        state = f"at {self._address:#x}" if self._free.alive else "freed"
        return f"<ucx_gaudi.Buffer of {self._nbytes} bytes {state}>"

    def _live(self):
        if not self._free.alive:
            raise ValueError(f"the buffer of {self._nbytes} bytes is freed already")
        return self._address

    def _at(self, offset, length):
        if offset < 0 or offset + length > self._nbytes:
            raise ValueError(f"{length} bytes at offset {offset} do not fit into a buffer of {self._nbytes} bytes")
        return self._live() + offset
