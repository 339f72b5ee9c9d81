// SPDX-License-Identifier: BSD-3-Clause
// The host memory that is pinned for cards, and how much of it registrations may keep so. Registering costs nothing and
// may go on for ever; the first copy pins the pages, and they stay so. When it is too much, the ranges that no copy used
// for the longest time are unmapped; their next copy maps them again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gaudi {

class Card;
class HostMapping;
class HostRange;

class Pinned {
public:
    static Pinned &get();

    /// Room for one more mapping, of `length` bytes and for `whom`; false when those that could leave are in use.
    bool make_room(const HostRange &whom, std::uint64_t length);
    /// Unmaps the range that was not used for the longest time; false when there is none.
    bool let_one_go(const HostRange &whom);
    /// False when that life of the card is over, and its mappings with it.
    bool add(HostRange &range, std::uint64_t length, const Card &card, std::uint64_t life);
    /// A range that ends: its mappings end here, so that a card that is closed meanwhile is not asked for them.
    void remove(HostRange &range);
    /// Takes what a copy that did not end may still touch: it stays as it is until the process ends.
    void keep(std::shared_ptr<void> touched);
    std::size_t kept();
    /// Ends every mapping on the card, which is about to be closed and takes no more copies.
    void leave(const Card &card);

    /// Stands still between mappings: uses are told apart only as far as mappings lie between them.
    static std::uint64_t now() { return s_clock.load(std::memory_order_relaxed); }

private:
    struct Entry {
        HostRange *range;
        std::uint64_t length; // on all cards together
        std::size_t mappings;
    };
    Pinned() = default;
    bool let_one_go(const HostRange &whom, std::vector<HostMapping> &later); // the mutex is held

    static std::atomic<std::uint64_t> s_clock;

    std::mutex m_mutex;
    std::vector<Entry> m_entries; // those mapped first come first
    std::uint64_t m_length = 0;
    std::size_t m_mappings = 0;
    std::vector<std::shared_ptr<void>> m_kept;
};

} // namespace gaudi
