// SPDX-License-Identifier: BSD-3-Clause
#include "host_ranges.h"

#include "os/mutex.h"

#include <pthread.h>

#include <map>
#include <utility>

namespace gaudi::record {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>; // node, address
using Ranges = std::map<Key, HostRange>;

constexpr os::LockRank kRanges{20, "host ranges of the recording"};
constinit os::Mutex s_mutex{kRanges};
Ranges *s_ranges GAUDI_GUARDED_BY(s_mutex) = nullptr; // never freed: calls come after exit handlers have run

void lock_ranges() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_mutex.lock(); }
void unlock_ranges() GAUDI_NO_THREAD_SAFETY_ANALYSIS { s_mutex.unlock(); }

/// Runs `use` on the table. Without memory for the table packets are missing in the recording, and nothing else happens.
template <class Use>
void with_ranges(Use &&use) noexcept {
    const os::MutexLock lock(s_mutex);
    try {
        if (!s_ranges) {
            s_ranges = new Ranges;
            // A child must not inherit the lock of a thread that it does not have.
            ::pthread_atfork(lock_ranges, unlock_ranges, unlock_ranges);
        }
        use(*s_ranges);
    } catch (...) {
    }
}

} // namespace

void add_host_range(std::uint64_t node, std::uint64_t address, HostRange range) noexcept {
    with_ranges([&](Ranges &ranges) { ranges[{node, address}] = range; });
}

HostRange take_host_range(std::uint64_t node, std::uint64_t address) noexcept {
    HostRange taken;
    with_ranges([&](Ranges &ranges) {
        if (const auto found = ranges.find({node, address}); found != ranges.end()) {
            taken = found->second;
            ranges.erase(found);
        }
    });
    return taken;
}

void remove_host_ranges(std::uint64_t node) noexcept {
    with_ranges([&](Ranges &ranges) {
        ranges.erase(ranges.lower_bound({node, 0}), ranges.upper_bound({node, UINT64_MAX}));
    });
}

const char *find_host_memory(std::uint64_t node, std::uint64_t address, std::size_t length) noexcept {
    const char *found = nullptr;
    with_ranges([&](Ranges &ranges) {
        auto at = ranges.upper_bound({node, address});
        if (at == ranges.begin())
            return;
        --at;
        const std::uint64_t offset = address - at->first.second;
        if (at->first.first == node && offset <= at->second.length && length <= at->second.length - offset)
            found = at->second.host + offset;
    });
    return found;
}

} // namespace gaudi::record
