// SPDX-License-Identifier: BSD-3-Clause
// The HCAs as this process sees them: configuration, devices, engine, and the objects that events refer to. Created at
// the first call and never destroyed, because programs call into the library from their last destructors.
#pragma once

#include "common/instance.h"
#include "config.h"
#include "engine.h"
#include "functions.h"
#include "objects.h"
#include "os/mutex.h"

#include <array>
#include <memory>
#include <tuple>
#include <unordered_map>

namespace softhca {

class Hca {
public:
    /// Null when the environment is wrong, which is reported on stderr once.
    static Hca *get();
    /// Whether `hca` belongs to this process; false in a child of fork for an inherited one.
    static bool is_current(const Hca *hca);

    const Config &config() const { return m_config; }
    Fabric &fabric() const { return *m_fabric; }
    State &state() const { return m_fabric->state(); }
    Engine &engine() { return *m_engine; }
    softgaudi::Clock &clock() { return *m_clock; }
    Device &device(unsigned index) { return m_devices[index]; }

    /// The faults of SOFTHCA_FAULTS that apply to this call.
    struct Fault {
        int error = 0;
        bool qp_error = false;
    };
    Fault match_faults(Function function, unsigned device);

    // ---- objects by the ids in events
    template <class T>
    void add(T &object) {
        const gaudi::os::MutexLock lock(m_mutex);
        all<T>()[object.id] = &object;
    }
    template <class T>
    void remove(T &object) {
        const gaudi::os::MutexLock lock(m_mutex);
        all<T>().erase(object.id);
    }
    /// Finds an object and counts an event for it, in one step: from then on its destruction waits for the acknowledgement.
    template <class T>
    T *deliver(uint32_t id, Unacknowledged T::*events) {
        const gaudi::os::MutexLock lock(m_mutex);
        const auto known = all<T>().find(id);
        if (known == all<T>().end())
            return nullptr;
        (known->second->*events).delivered();
        return known->second;
    }

private:
    friend class soft::Instance<Hca>;
    static std::unique_ptr<Hca> make();
    explicit Hca(Config config);
    bool set_up();
    void forked() { m_fabric->close_place(); } // a child must not complete the work of its parent
    bool make_clock();
    void name_devices();

    Config m_config;
    soft::FaultCounts m_fault_counts;
    std::unique_ptr<Fabric> m_fabric;
    std::unique_ptr<softgaudi::Clock> m_clock;
    std::unique_ptr<Engine> m_engine;
    std::array<Device, kMaxDevices> m_devices{};

    template <class T>
    using ById = std::unordered_map<uint32_t, T *>;
    template <class T>
    ById<T> &all() GAUDI_REQUIRES(m_mutex) {
        return std::get<ById<T>>(m_objects);
    }
    gaudi::os::Mutex m_mutex{Rank::objects};
    std::tuple<ById<Cq>, ById<Qp>, ById<Srq>> m_objects GAUDI_GUARDED_BY(m_mutex);
};

/// PCI address of a device; two on each socket of the modelled server.
const char *bus_id(unsigned device);

} // namespace softhca
