// SPDX-License-Identifier: BSD-3-Clause
#include "page_supply.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <system_error>

namespace gaudi::cli {
namespace {

constexpr std::uint64_t kStep = 256 << 10, kAhead = 8 << 20;

} // namespace

PageSupply::PageSupply(int fd, const record::Head &head)
    : m_head(head), m_file(::mmap(nullptr, head.limit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {
    if (m_file == MAP_FAILED)
        return;
    try {
        m_thread = std::thread([this] { run(); });
    } catch (const std::system_error &) { // no thread: the recording is slower, and the same
    }
}

PageSupply::~PageSupply() {
    m_stop.store(true, std::memory_order_relaxed);
    if (m_thread.joinable())
        m_thread.join();
    if (m_file != MAP_FAILED)
        ::munmap(m_file, m_head.limit);
}

void PageSupply::run() {
    for (std::uint64_t done = 0; !m_stop.load(std::memory_order_relaxed);) {
        const std::uint64_t cursor = m_head.cursor.load(std::memory_order_relaxed);
        if (cursor >= m_head.limit) // full or closed
            return;
        const std::uint64_t wanted = std::min(cursor + kAhead, m_head.limit) / kStep * kStep;
        if (done >= wanted) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            continue;
        }
        done = std::max(done, cursor / kStep * kStep); // what programs have overtaken is theirs
        if (::madvise(static_cast<char *>(m_file) + done, kStep, MADV_POPULATE_WRITE) != 0)
            return; // Linux before 5.14
        done += kStep;
    }
}

} // namespace gaudi::cli
