// SPDX-License-Identifier: BSD-3-Clause
// Pages of a recording that are at hand before the recorded programs write to them. The first write to a page of a mapped file
// takes the file system 8 µs, and more while it writes to the disk: a thread of `ucx_gaudi record` makes it ahead of the
// programs, which are left with a short page fault.
#pragma once

#include "record/format.h"

#include <atomic>
#include <thread>

namespace gaudi::cli {

class PageSupply {
public:
    /// `head`: the mapped beginning of the file `fd`, which has its full size; it must outlive this object.
    PageSupply(int fd, const record::Head &head);
    ~PageSupply();
    PageSupply(const PageSupply &) = delete;
    PageSupply &operator=(const PageSupply &) = delete;

private:
    void run();

    const record::Head &m_head;
    void *const m_file; // MAP_FAILED: there are no pages ahead
    std::atomic<bool> m_stop{false};
    std::thread m_thread;
};

} // namespace gaudi::cli
