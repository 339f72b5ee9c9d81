// SPDX-License-Identifier: BSD-3-Clause
// A copy on its way, and the channel that hears of its end. Engines are shared by all users of a card in the process;
// a channel belongs to one of them, so that completions are called by the thread that progresses it and by no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace gaudi {

class Channel;

struct Transfer {
    using Done = void (*)(Transfer &transfer);

    // ---- set by whoever posts it
    std::uint64_t source = 0; // in the card's address space
    std::uint64_t destination = 0;
    std::uint64_t length = 0;
    Done done = nullptr; // called from Channel::dispatch
    void *user = nullptr;
    void (*callback)(void *user, int error) = nullptr; // for a `done` that only hands on
    bool flush = false;                           // the source may hold what a NIC wrote: make the card see it first
    std::atomic<std::uint64_t> *copies = nullptr; // of the host range that is held until the card has let go of it

    // ---- the engine's
    std::uint64_t emitted = 0;
    std::uint32_t batches = 0; // that carry a part of it
    int error = 0;             // errno of the first failure
    bool abandoned = false;    // a submission may still run it: what it touches stays mapped and is not used again
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
    /// There is always one more: a copy that was refused for want of room would fail the message it belongs to.
    Transfer *take() {
        if (!m_free)
            grow();
        Transfer *transfer = m_free;
        m_free = transfer->next;
        transfer->flush = false;
        transfer->copies = nullptr;
        transfer->emitted = 0;
        transfer->batches = 0;
        transfer->error = 0;
        transfer->abandoned = false;
        ++m_outstanding;
        return transfer;
    }
    /// Calls what has completed; how many.
    unsigned dispatch();
    unsigned outstanding() const { return m_outstanding; }

    // ---- any thread
    void finish(Transfer &transfer) { finish(transfer, transfer); }
    /// Several that are linked from the newest to the oldest.
    void finish(Transfer &newest, Transfer &oldest);
    bool has_finished() const { return m_finished.load(std::memory_order_acquire) != nullptr; }

    /// Asks for `event_fd` to be written when something finishes; false when something has already.
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
