// SPDX-License-Identifier: BSD-3-Clause
#include "cli/verbs.h"
#include "collect.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace gaudi::cli::doctor {
namespace {

constexpr std::uint8_t kPort = 1;

struct Code {
    unsigned code, value;
};
constexpr Code kSpeeds[] = {{1, 25},   {2, 50},   {4, 100},  {8, 100},
                            {16, 140}, {32, 250}, {64, 500}, {128, 1000}}; // a lane's, in tenths of Gbit/s
constexpr Code kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};     // lanes

/// The rate of a port in Gbit/s; nothing for the codes of newer hardware.
std::optional<std::uint64_t> rate_of(const ibv_port_attr &port) {
    const auto speed = std::ranges::find(kSpeeds, port.active_speed, &Code::code);
    const auto width = std::ranges::find(kWidths, port.active_width, &Code::code);
    if (speed == std::end(kSpeeds) || width == std::end(kWidths))
        return {};
    return speed->value * width->value / 10;
}

NicFacts probe(const Verbs &verbs, ibv_device *device) {
    NicFacts nic;
    nic.name = verbs.get_device_name(device);
    nic.sysfs_path = device->ibdev_path;
    ibv_context *context = verbs.open_device(device);
    if (!context) {
        nic.why_unprobed = std::string("it cannot be opened: ") + std::strerror(errno);
        return nic;
    }
    ibv_port_attr port{};
    if (verbs.query_port(context, kPort, &port) == 0) {
        nic.active = port.state == IBV_PORT_ACTIVE;
        nic.rate_gbit_per_s = nic.active ? rate_of(port) : std::nullopt;
    }
    if (ibv_pd *pd = verbs.alloc_pd(context)) {
        errno = ENOSYS;
        constexpr std::size_t kPage = 4096;
        ibv_mr *mr = verbs.reg_dmabuf_mr ? verbs.reg_dmabuf_mr(pd, 0, kPage, 0, -1, IBV_ACCESS_LOCAL_WRITE) : nullptr;
        nic.dmabuf_errno = mr ? 0 : errno;
        if (mr)
            verbs.dereg_mr(mr);
        verbs.dealloc_pd(pd);
    } else {
        nic.why_unprobed = std::string("it has no protection domain: ") + std::strerror(errno);
    }
    verbs.close_device(context);
    return nic;
}

} // namespace

void collect_nics(Facts &facts) {
    const auto verbs = load_verbs();
    if (!verbs) {
        facts.why_no_verbs = verbs.error();
        return;
    }
    int count = 0;
    ibv_device **list = verbs->get_device_list(&count);
    for (int i = 0; list && i < count; ++i)
        facts.nics.push_back(probe(*verbs, list[i]));
    if (list)
        verbs->free_device_list(list);
}

} // namespace gaudi::cli::doctor
