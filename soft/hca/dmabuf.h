// SPDX-License-Identifier: BSD-3-Clause
// The properties of a dma-buf that an importer reads from its descriptor.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>

namespace softhca {

struct DmaBuf {
    uint64_t base = 0; // offset in the file behind the descriptor
    uint64_t size = 0;
    bool kernel = false; // exported by the kernel, not by the software Gaudi
};

/// The dma-buf, or the errno of an import that is refused.
tl::expected<DmaBuf, int> inspect_dmabuf(int fd);

} // namespace softhca
