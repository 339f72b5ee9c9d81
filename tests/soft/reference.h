// SPDX-License-Identifier: BSD-3-Clause
// A reference model of a card, as simple as possible, for random sequences of calls.
#pragma once

#include "soft.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace soft {

/// Memory that is zero until written.
class Shadow {
public:
    std::vector<unsigned char> read(uint64_t offset, size_t size) const {
        std::vector<unsigned char> bytes(size, 0);
        for (size_t done = 0; done < size;) {
            const uint64_t inside = (offset + done) % kBytes;
            const size_t piece = std::min<uint64_t>(size - done, kBytes - inside);
            if (const auto page = m_pages.find((offset + done) / kBytes); page != m_pages.end())
                std::memcpy(bytes.data() + done, page->second.data() + inside, piece);
            done += piece;
        }
        return bytes;
    }
    void write(uint64_t offset, const std::vector<unsigned char> &bytes) {
        for (size_t done = 0; done < bytes.size();) {
            const uint64_t inside = (offset + done) % kBytes;
            const size_t piece = std::min<uint64_t>(bytes.size() - done, kBytes - inside);
            std::memcpy(m_pages[(offset + done) / kBytes].data() + inside, bytes.data() + done, piece);
            done += piece;
        }
    }

private:
    static constexpr uint64_t kBytes = 4096;
    std::unordered_map<uint64_t, std::array<unsigned char, kBytes>> m_pages;
};

struct Reference {
    struct Allocation {
        uint64_t size = 0; // whole pages
        unsigned mappings = 0;
        Shadow bytes;
    };
    struct Mapping {
        uint64_t begin = 0, end = 0; // whole pages
        uint64_t size = 0;           // bytes that the program requested, from the address on
        uint64_t handle = 0;         // handle of device memory; 0 for host memory
        uint64_t offset = 0;         // in host memory
        unsigned exports = 0;
    };
    struct Export {
        int fd = -1;
        uint64_t address = 0;
    };

    std::map<uint64_t, Allocation> allocations;
    std::map<uint64_t, Mapping> mappings; // by returned address
    std::vector<Export> exports;
    Shadow sram, host;
    uint64_t used = 0;

    bool is_free(uint64_t begin, uint64_t end) const {
        return std::none_of(mappings.begin(), mappings.end(),
                            [&](const auto &entry) { return entry.second.begin < end && begin < entry.second.end; });
    }
};

} // namespace soft
