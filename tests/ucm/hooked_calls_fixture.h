// SPDX-License-Identifier: BSD-3-Clause
// A fixture with the hooked calls on the software server and a listener to its notifications.
#pragma once

#include "framework_program.h"

#include "ucm/hooked_calls.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace gaudi::test {

using ucm::HookedCalls;
using ucm::RealCalls;

inline RealCalls real_calls() {
    const thunk::Functions &call = FrameworkProgram::call();
    return {call.open,
            call.open_by_module_id,
            call.close,
            call.device_memory_alloc,
            call.device_memory_free,
            call.device_memory_map,
            call.memory_unmap};
}

/// Records the notifications that UCX would get.
class Listener : public MappingListener {
public:
    void mapped(const Region &region) override {
        const std::lock_guard guard(m_mutex);
        m_ranges.push_back({region.base(), region.size()});
        ++m_mapped;
    }
    void unmapping(const Region &region) override {
        const std::lock_guard guard(m_mutex);
        std::erase_if(m_ranges, [&](const Range &range) { return range.base == region.base(); });
        ++m_unmapped;
    }
    void card_closed(const Card &) override { ++m_closed; }

    std::vector<Range> ranges() {
        const std::lock_guard guard(m_mutex);
        return m_ranges;
    }
    unsigned mapped_count() const { return m_mapped; }
    unsigned unmapped_count() const { return m_unmapped; }
    unsigned closed_count() const { return m_closed; }

private:
    std::mutex m_mutex;
    std::vector<Range> m_ranges;
    std::atomic<unsigned> m_mapped{0}, m_unmapped{0}, m_closed{0};
};

/// Sets variables that the software server reads at its first call.
struct ServerSettings {
    ServerSettings(const std::string &faults, const std::string &pace) {
        if (!faults.empty())
            set("SOFTGAUDI_FAULTS", faults);
        if (!pace.empty())
            set("SOFTGAUDI_PACE", pace);
    }
};

class HookedCallsTest : public GaudiTest, ServerSettings {
protected:
    explicit HookedCallsTest(const std::string &faults = {}, const std::string &pace = {})
        : ServerSettings(faults, pace) {
        LiveMappings::get().add_listener(cards(), m_listener);
    }
    ~HookedCallsTest() override { LiveMappings::get().remove_listener(m_listener); }

    /// Opens a card through the hook, as a program does.
    int open(std::size_t index = 0) { return m_calls.open(HLTHUNK_DEVICE_DONT_CARE, card(index).bus_id().c_str()); }

    /// The deferred unmaps of a card's current session.
    static std::size_t deferred_unmaps(std::size_t index = 0) {
        const Session *session = card(index).session();
        const ForeignMappings *mappings = session ? session->find<ForeignMappings>() : nullptr;
        return mappings ? mappings->deferred_unmaps() : 0;
    }

    Listener m_listener;
    HookedCalls m_calls{cards(), real_calls()};
};

} // namespace gaudi::test
