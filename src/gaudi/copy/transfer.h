// SPDX-License-Identifier: BSD-3-Clause
// A copy under way, and the channel that its end is handed to. Engines are shared by all users of a card in the process; a
// channel belongs to one of them, so that completions are called by the thread that progresses it and by no other.
#pragma once

#include "gaudi/card/result.h"
#include "gaudi/counters/counters.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

class Channel;

/// Why a copy failed; null for one that has not. Copies that failed for one cause share it.
using Failure = std::shared_ptr<const Error>;

struct Transfer {
    using Done = void (*)(Transfer &transfer);

    // ---- set by the user that posts it
    std::uint64_t source = 0; // in the card's address space
    std::uint64_t destination = 0;
    std::uint64_t length = 0;
    Done done = nullptr; // called from Channel::dispatch
    void *user = nullptr;
    void (*callback)(void *user, const Error *error) = nullptr; // for a `done` that only calls this
    Path path = Path::self_test;
    bool counts = true;                           // as a copy: of the pieces of one copy, the last does
    bool flush = false;                           // the source may hold a NIC's writes: flush them to the card first
    std::atomic<std::uint64_t> *copies = nullptr; // of the host range that is held until the copy has ended

    // ---- set by the engine
    std::uint64_t emitted = 0;
    std::uint32_t batches = 0; // that carry a part of it
    Failure failure;           // the first one
    bool abandoned = false;    // a submission may still run it: the memory it uses stays mapped and is not used again
    Transfer *next = nullptr;
    Channel *channel = nullptr;
};

class Channel {
public:
    Channel();
    ~Channel();
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    // ---- the owner's thread
    /// Never fails, because the list grows: a refused copy would fail the message it belongs to.
    Transfer *take() {
        if (!m_free)
            grow();
        Transfer *transfer = m_free;
        m_free = transfer->next;
        transfer->counts = true;
        transfer->flush = false;
        transfer->copies = nullptr;
        transfer->emitted = 0;
        transfer->batches = 0;
        transfer->failure.reset();
        transfer->abandoned = false;
        ++m_outstanding;
        return transfer;
    }
    /// Calls `done` of the transfers that have ended; how many.
    unsigned dispatch();
    unsigned outstanding() const { return m_outstanding; }

    // ---- any thread
    void finish(Transfer &transfer) { finish(transfer, transfer); }
    /// Several, linked from the newest to the oldest.
    void finish(Transfer &newest, Transfer &oldest);
    bool has_finished() const { return m_finished.load(std::memory_order_acquire) != nullptr; }

    /// Lets `event_fd` be written at the next end; false when a transfer has ended already.
    bool arm(int event_fd);

private:
    static constexpr unsigned kChunk = 256;

    void grow();

    std::vector<std::unique_ptr<Transfer[]>> m_chunks;
    Transfer *m_free = nullptr;
    unsigned m_outstanding = 0;
    std::atomic<Transfer *> m_finished{nullptr}; // newest first
    std::atomic<int> m_event{-1};
};

} // namespace gaudi
