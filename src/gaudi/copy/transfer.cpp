// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.h"

#include "gaudi/host/host_range.h"

#include <unistd.h>

namespace gaudi {

Channel::Channel() = default;
Channel::~Channel() = default;

void Channel::grow() {
    m_chunks.push_back(std::make_unique<Transfer[]>(kChunk));
    for (unsigned i = 0; i < kChunk; ++i) {
        Transfer &transfer = m_chunks.back()[i];
        transfer.channel = this;
        transfer.next = m_free;
        m_free = &transfer;
    }
}

void Channel::finish(Transfer &newest, Transfer &oldest) {
    for (Transfer *transfer = &newest;; transfer = transfer->next) {
        if (transfer->copies)
            HostRange::release(*transfer->copies, transfer->abandoned);
        if (transfer == &oldest)
            break;
    }
    Transfer *before = m_finished.load(std::memory_order_relaxed);
    do
        oldest.next = before;
    while (!m_finished.compare_exchange_weak(before, &newest, std::memory_order_seq_cst, std::memory_order_relaxed));
    // finish() and arm() each write one variable and read the other's: at least one sees what the other wrote.
    if (const int event = m_event.exchange(-1, std::memory_order_seq_cst); event >= 0) {
        const std::uint64_t one = 1;
        (void)!write(event, &one, sizeof one);
    }
}

unsigned Channel::dispatch() {
    if (!has_finished())
        return 0;
    Transfer *newest = m_finished.exchange(nullptr, std::memory_order_acquire);
    Transfer *oldest = nullptr;
    while (newest) {
        Transfer *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    unsigned count = 0;
    while (oldest) {
        Transfer *next = oldest->next;
        --m_outstanding; // before the call, which may ask for it
        oldest->done(*oldest);
        oldest->next = m_free;
        m_free = oldest;
        oldest = next;
        ++count;
    }
    return count;
}

bool Channel::arm(int event_fd) {
    m_event.store(event_fd, std::memory_order_seq_cst);
    if (m_finished.load(std::memory_order_seq_cst) == nullptr)
        return true;
    m_event.store(-1, std::memory_order_release);
    return false;
}

} // namespace gaudi
