// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"

// The functions of libhl-thunk that the product calls, without their prefix.

/// Every library has these; one that lacks a function of them is refused.
#define GAUDI_THUNK_REQUIRED(X)                                                                                        \
    X(open)                                                                                                            \
    X(open_control)                                                                                                    \
    X(close)                                                                                                           \
    X(get_pci_bus_id_from_fd)                                                                                          \
    X(get_hw_ip_info)                                                                                                  \
    X(get_device_status_info)                                                                                          \
    X(get_open_stats)                                                                                                  \
    X(get_dram_usage)                                                                                                  \
    X(get_reset_count_info)                                                                                            \
    X(device_memory_alloc)                                                                                             \
    X(device_memory_free)                                                                                              \
    X(device_memory_map)                                                                                               \
    X(host_memory_map)                                                                                                 \
    X(memory_unmap)                                                                                                    \
    X(command_submission)                                                                                              \
    X(wait_for_cs)

/// Older libraries lack some of these: each is a capability, see Library::has_*().
#define GAUDI_THUNK_OPTIONAL(X)                                                                                        \
    X(device_mapped_memory_export_dmabuf_fd)                                                                           \
    X(open_by_module_id)                                                                                               \
    X(cs_flush_pci_hbw_writes)                                                                                         \
    X(get_version)                                                                                                     \
    X(free)                                                                                                            \
    X(notifier_create)                                                                                                 \
    X(notifier_release)                                                                                                \
    X(notifier_recv)

namespace gaudi::thunk {

/// The functions of one loaded library; an optional one that it lacks is nullptr.
struct Functions {
#define GAUDI_THUNK_MEMBER(name) decltype(&hlthunk_##name) name = nullptr;
    GAUDI_THUNK_REQUIRED(GAUDI_THUNK_MEMBER)
    GAUDI_THUNK_OPTIONAL(GAUDI_THUNK_MEMBER)
#undef GAUDI_THUNK_MEMBER
};

} // namespace gaudi::thunk
