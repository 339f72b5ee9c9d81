// SPDX-License-Identifier: BSD-3-Clause
// What an importer can tell of a dma-buf from its descriptor.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>

namespace softhca {

struct DmaBuf {
    uint64_t base = 0; // where it begins in the file behind the descriptor
    uint64_t size = 0;
    bool kernel = false; // of the kernel's, not of the software Gaudi
};

/// The dma-buf, or the errno of one that cannot be imported.
tl::expected<DmaBuf, int> inspect_dmabuf(int fd);

} // namespace softhca
