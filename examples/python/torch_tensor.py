# SPDX-License-Identifier: BSD-3-Clause
"""A PyTorch tensor goes to a card and comes back. PyTorch's CPU build is enough.

    ucx_gaudi run --cards 1 -- python torch_tensor.py

A tensor that PyTorch itself has on a card (device "hpu") needs no Buffer: UCX recognises its memory. But its data_ptr() is
a handle and not an address; UCX would take it for host memory. The address is what
habana_frameworks.torch.utils.experimental._data_ptr(tensor) returns, which also keeps the memory at its place. That part
needs a real card, and was not tried.
"""

import torch

import ucx_gaudi


def as_bytes(tensor):
    """The memory of a contiguous tensor on the host, of any type, as an array of bytes that shares it."""
    return tensor.view(torch.uint8).numpy()


def main():
    tensor = torch.randn(1024, 1024).to(torch.bfloat16)
    back = torch.zeros_like(tensor)
    with ucx_gaudi.Buffer(tensor.numel() * tensor.element_size()) as buffer:
        buffer.write(as_bytes(tensor))  # buffer.address is what UCX, NIXL and MPI take
        buffer.read_into(as_bytes(back))
        print(f"{buffer.nbytes} bytes to card {buffer.card} and back:",
              "every byte arrived" if torch.equal(tensor, back) else "WRONG BYTES")


if __name__ == "__main__":
    main()
