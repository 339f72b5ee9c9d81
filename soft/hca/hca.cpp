// SPDX-License-Identifier: BSD-3-Clause
#include "hca.h"

#include "common/directory.h"
#include "common/kernel.h"
#include "events.h"
#include "os/format.h"
#include "report.h"

#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstring>

namespace softhca {

const char *bus_id(unsigned device) {
    static constexpr std::array<const char *, kMaxDevices> names = {"0000:1c:00.0", "0000:9d:00.0", "0000:36:00.0",
                                                                    "0000:b6:00.0"};
    return names[device];
}

Hca *Hca::get() { return soft::Instance<Hca>::get(); }

bool Hca::is_current(const Hca *hca) { return hca && soft::Instance<Hca>::made() == hca; }

std::unique_ptr<Hca> Hca::make() {
    auto config = read_config();
    if (!config) {
        report(config.error());
        return nullptr;
    }
    const auto able = soft::check_room(config->dir, "SOFTHCA_DIR").and_then([] {
        return soft::try_memory_calls("no HCA can access the memory of a program");
    });
    if (!able) {
        report(able.error());
        return nullptr;
    }
    if (const auto calls = soft::try_descriptor_calls("dma-bufs of the kernel that a peer registered cannot be used");
        !calls)
        report(calls.error());
    std::unique_ptr<Hca> hca(new Hca(std::move(*config)));
    return hca->set_up() ? std::move(hca) : nullptr;
}

Hca::Hca(Config config) : m_config(std::move(config)), m_fault_counts(m_config.faults.size()) {}

bool Hca::set_up() {
    m_fabric = Fabric::open(m_config.dir);
    if (!m_fabric) {
        report(gaudi::os::format("cannot set up {}/fabric: {}", m_config.dir, soft::describe_setup_error(errno)));
        return false;
    }
    if (!m_fabric->join()) {
        report(errno == ENOMEM
                   ? gaudi::os::format("cannot join the fabric in {}: it is full; set SOFTHCA_DIR to another directory",
                                       m_config.dir)
                   : gaudi::os::format("cannot join the fabric in {}: {}", m_config.dir, std::strerror(errno)));
        return false;
    }
    // Engines of other processes access this process's memory without its help, as a NIC does.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (!make_clock())
        return false;
    m_engine = std::make_unique<Engine>(*m_fabric, m_config, *m_clock);
    name_devices();
    return true;
}

/// The virtual clock is the software Gaudi's, so that copies and transfers share one time.
bool Hca::make_clock() {
    softgaudi::ClockState *state = nullptr;
    if (m_config.pace.mode == Pace::Mode::virtual_clock) {
        mkdir(m_config.clock_dir.c_str(), 0700);
        state = softgaudi::map_clock(m_config.clock_dir);
        if (!state) {
            report(gaudi::os::format("cannot map {}/clock: {}", m_config.clock_dir, soft::describe_setup_error(errno)));
            return false;
        }
    }
    m_clock = std::make_unique<softgaudi::Clock>(state);
    return true;
}

void Hca::name_devices() {
    const auto copy = [](auto &to, const std::string &from) { std::memcpy(to, from.data(), from.size()); };
    for (unsigned i = 0; i < m_config.devices; ++i) {
        Device &device = m_devices[i];
        device.index = i;
        device.verbs.node_type = IBV_NODE_CA;
        device.verbs.transport_type = IBV_TRANSPORT_IB;
        copy(device.verbs.name, gaudi::os::format("softhca{}", i));
        copy(device.verbs.dev_name, gaudi::os::format("uverbs_softhca{}", i));
        copy(device.verbs.dev_path, gaudi::os::format("/sys/class/infiniband_verbs/uverbs_softhca{}", i));
        // The grandparent is the PCI device: UCX takes the address, and the distances, from there.
        copy(device.verbs.ibdev_path, gaudi::os::format("/sys/bus/pci/devices/{}/infiniband/softhca{}", bus_id(i), i));
    }
}

Hca::Fault Hca::match_faults(Function function, unsigned device) {
    Fault fault;
    using Action = FaultRule::Action;
    for (size_t i = 0; i < m_config.faults.size(); ++i) {
        const FaultRule &rule = m_config.faults[i];
        if (!m_fault_counts.count_call(i, rule, kFunctions[function.index], device))
            continue;
        DeviceEntry &entry = state().devices[device];
        switch (rule.action) {
        case Action::fail:
            fault.error = rule.error;
            break;
        case Action::limit:
            fault.error = entry.regions.load() >= rule.limit ? ENOMEM : fault.error;
            break;
        case Action::qp_error:
            fault.qp_error = true;
            break;
        case Action::link_down:
            if (entry.down.exchange(1) == 0)
                raise_device_event(*m_fabric, device, {IBV_EVENT_PORT_ERR, 1});
            break;
        case Action::link_up:
            if (entry.down.exchange(0) != 0)
                raise_device_event(*m_fabric, device, {IBV_EVENT_PORT_ACTIVE, 1});
            break;
        case Action::device_fatal:
            raise_device_event(*m_fabric, device, {IBV_EVENT_DEVICE_FATAL, 0});
            fault.error = EIO;
            break;
        }
    }
    return fault;
}

} // namespace softhca
