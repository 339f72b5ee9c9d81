// SPDX-License-Identifier: BSD-3-Clause
// What a replay has open and mapped, found by the values that the recording has for it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gaudi::cli {

/// A value of the recording can stand for two things for a moment: one thread unmaps an address, and another gets it for a
/// new mapping and is recorded first. The older thing is then the one that ends.
template <class Thing>
class Translation {
public:
    void add(std::uint64_t recorded, Thing thing) { m_things[recorded].push_back(std::move(thing)); }
    /// The newest; null if there is none.
    Thing *find(std::uint64_t recorded) {
        const auto at = m_things.find(recorded);
        return at == m_things.end() ? nullptr : &at->second.back();
    }
    /// The oldest.
    Thing *find_oldest(std::uint64_t recorded) {
        const auto at = m_things.find(recorded);
        return at == m_things.end() ? nullptr : &at->second.front();
    }
    void remove_oldest(std::uint64_t recorded) {
        const auto at = m_things.find(recorded);
        if (at == m_things.end())
            return;
        at->second.pop_front();
        if (at->second.empty())
            m_things.erase(at);
    }
    /// The newest thing whose recorded value is at or below `recorded`.
    std::pair<std::uint64_t, Thing *> find_below(std::uint64_t recorded) {
        auto at = m_things.upper_bound(recorded);
        if (at == m_things.begin())
            return {0, nullptr};
        --at;
        return {at->first, &at->second.back()};
    }
    template <class Visit>
    void for_each(Visit &&visit) {
        for (auto &[recorded, things] : m_things)
            for (Thing &thing : things)
                visit(recorded, thing);
    }

private:
    std::map<std::uint64_t, std::deque<Thing>> m_things;
};

/// Host memory of the replay in place of the program's, with the same place in its page.
class HostCopy {
public:
    /// Without access where the program's could not be mapped either. Null if there is not enough memory: the card maps
    /// all of it, so one range gets a quarter of what the machine has left.
    static std::unique_ptr<HostCopy> make(std::uint64_t pointer, std::uint64_t length, bool accessible);
    HostCopy(const HostCopy &) = delete;
    HostCopy &operator=(const HostCopy &) = delete;
    ~HostCopy();
    char *data() const { return m_data; }

private:
    HostCopy(void *base, std::size_t size, char *data) : m_base(base), m_size(size), m_data(data) {}

    void *const m_base;
    const std::size_t m_size;
    char *const m_data;
};

struct DeviceMemory {
    std::uint64_t handle, size;
};

/// A mapping of host or device memory.
struct ReplayMapping {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t recorded_host = 0;
    std::shared_ptr<HostCopy> host; // none: device memory
    std::vector<int> exports;       // dma-bufs
};

/// A device context: what all descriptors of one open share.
struct ReplayContext {
    Translation<DeviceMemory> memory;
    Translation<ReplayMapping> mappings;
    Translation<std::uint64_t> buffers;
    std::map<std::uint64_t, std::optional<std::uint64_t>> sequences; // none: the submission was not replayed
    std::vector<std::uint64_t> running;                              // submissions that nobody waited for
    std::vector<std::pair<std::uint64_t, std::uint64_t>> fetched;    // command buffers of those: address, length

    /// The address of the replay for one of the recording, which may lie inside a mapping.
    std::uint64_t translate(std::uint64_t recorded);
    /// Host memory of the replay at a recorded address of the card; null if there are not `length` bytes.
    char *find_host(std::uint64_t recorded, std::uint64_t length);
    /// The same at a recorded pointer.
    char *find_host_pointer(std::uint64_t recorded);
    void close_exports();
};

struct ReplayDescriptor {
    int fd = -1;
    std::uint64_t node = 0; // of the recording
    std::shared_ptr<ReplayContext> context;
};

} // namespace gaudi::cli
