// SPDX-License-Identifier: BSD-3-Clause
// The device memory that a framework or the program itself has mapped in one session. The memory hooks see most of it as
// it is made: the size with the allocation, the address with the mapping, and the address alone when it is unmapped. The
// rest is found by probing the driver (foreign_probe.h).
#pragma once

#include "gaudi/card/session.h"
#include "region.h"
#include "retry_pace.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gaudi {

class ForeignMappings : public SessionPart {
public:
    static constexpr PartKind kKind = PartKind::foreign;

    explicit ForeignMappings(Session &session) : m_session(session) {}

    // ---- for the memory hooks, around the calls of the framework
    void note_allocation(std::uint64_t handle, std::uint64_t size);
    /// The size is known if the allocation was seen. Else the mapping is found by probing.
    void note_mapping(std::uint64_t address, std::uint64_t handle);

    struct Unmap {
        bool hooked = false;   // the mapping was seen when it was made
        bool exported = false; // a NIC may have it registered, and then the driver refuses to unmap it
        std::uint64_t id = 0;  // of the mapping: the next one may get its address before end_unmap()
    };
    /// Before the driver's call: registrations end, and no lookup finds the mapping until end_unmap(). Nothing for an
    /// address that is being unmapped already.
    std::optional<Unmap> begin_unmap(std::uint64_t address);
    /// After it. True: the driver has refused because of a registration that UCX gives back later, so the unmap is
    /// deferred and has succeeded as far as the framework is concerned.
    bool end_unmap(std::uint64_t address, const Unmap &unmap, bool succeeded);

    struct Free {
        std::uint64_t size = 0; // 0: the allocation was not seen
        bool deferred = false;  // until the deferred unmap of its mapping
    };
    /// Before the driver's call, which is not made for a deferred free.
    Free begin_free(std::uint64_t handle);
    /// After a call that failed; true: the free is deferred instead.
    bool end_failed_free(std::uint64_t handle, const Free &free);

    /// Mappings that the framework has unmapped and the driver still has.
    std::size_t deferred_unmaps() const { return m_deferred_count.load(std::memory_order_acquire); }
    /// Number of deferred unmaps that succeeded later, so far.
    std::uint64_t ended_unmaps() const { return m_ended_count.load(std::memory_order_acquire); }
    /// Tries the deferred unmaps again that are due (RetryPace). Where memory is needed, waits for a thread that is at it;
    /// else returns at once.
    void retry_deferred_unmaps(RetryPace::Need need = RetryPace::Need::none);

    // ---- for probing and resolving
    /// Makes a mapping known that was found by a probe or in a pool; a region that is known at its address already wins over
    /// a probed one. Null when the session has ended or the mapping is being unmapped.
    Region *publish(Range range, Region::Origin origin) { return publish(range, origin, 0); }
    /// Forgets a mapping, unless its region has another generation by now.
    void withdraw(Region &region, std::uint64_t generation);
    /// Forgets the mappings in a range that the driver has given away again. Of the one with `live_id`, only a region that a
    /// probe published is withdrawn.
    void withdraw_overlapping(Range range, std::uint64_t live_id = 0);
    /// Whether a mapping at `base` is not to be used because the framework unmaps it. Waits for its call to the driver.
    bool is_being_unmapped(std::uint64_t base);

    void release() override;

private:
    struct Mapping {
        std::uint64_t id = 0;
        std::uint64_t size = 0;
        std::uint64_t handle = 0; // of the allocation; 0: not seen
        bool unmapping = false;   // between begin_unmap() and end_unmap()
        Region *region = nullptr;
        std::uint64_t generation = 0; // of the region
    };
    struct DeferredUnmap {
        std::uint64_t id;
        std::uint64_t address;
        std::uint64_t handle; // of the allocation; 0: not seen
        bool freed = false;   // by the framework; it is freed after the unmap
        bool trying = false;  // a thread repeats the driver's call
        RetryPace pace{};
    };

    Region *publish(Range range, Region::Origin origin, std::uint64_t id);
    bool defer_free(std::uint64_t handle, std::uint64_t known_as) GAUDI_REQUIRES(m_mutex);
    DeferredUnmap *find_deferred(std::uint64_t address) GAUDI_REQUIRES(m_mutex);
    void set_deferred_count() GAUDI_REQUIRES(m_mutex);

    Session &m_session;
    os::Mutex m_retry_mutex{rank::kDeferredUnmaps};
    os::Mutex m_mutex{rank::kForeignTable}; // never held while a driver is called or listeners are notified
    std::map<std::uint64_t, Mapping> m_mappings GAUDI_GUARDED_BY(m_mutex);                    // by address
    std::unordered_map<std::uint64_t, std::uint64_t> m_allocations GAUDI_GUARDED_BY(m_mutex); // sizes by handle
    // Apart from the mappings: the driver may give the address away again before the end of such an unmap is noted.
    std::vector<DeferredUnmap> m_deferred GAUDI_GUARDED_BY(m_mutex);
    std::uint64_t m_last_id GAUDI_GUARDED_BY(m_mutex) = 0;
    std::atomic<std::size_t> m_deferred_count{0};
    std::atomic<std::uint64_t> m_ended_count{0};
};

/// Whether a foreign mapping of this generation is there still, as far as the driver can tell now. If not, it is forgotten.
bool confirm(Region &region, std::uint64_t generation);
inline bool confirm(Region &region) { return confirm(region, region.generation()); }
/// Reports, once, that two cards of this process have memory at one address.
void report_ambiguous(const Card &first, const Card &second, std::uint64_t address);

} // namespace gaudi
