// SPDX-License-Identifier: BSD-3-Clause
// libucm's events and the installers that modules add to it.
#pragma once

#include "abi_ucs.h"

namespace gaudi::ucx {

enum ucm_event_type_t : unsigned {
    UCM_EVENT_NONE = 0,
    UCM_EVENT_MREMAP = 1u << 2,
    UCM_EVENT_VM_MAPPED = 1u << 16,
    UCM_EVENT_VM_UNMAPPED = 1u << 17,
    UCM_EVENT_MEM_TYPE_ALLOC = 1u << 20,
    UCM_EVENT_MEM_TYPE_FREE = 1u << 21,
    UCM_EVENT_FLAG_NO_INSTALL = 1u << 24,
    UCM_EVENT_FLAG_EXISTING_ALLOC = 1u << 25,
};

struct ucm_event_mremap_t {
    void *result;
    void *address;
    std::size_t old_size;
    std::size_t new_size;
};

struct ucm_event_vm_t {
    void *address;
    std::size_t size;
};

/// Every field must be set: UCX reads all of them.
struct ucm_event_mem_type_t {
    void *address;
    std::size_t size;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    std::uint8_t mem_flags;
};

union ucm_event {
    ucm_event_mremap_t mremap;
    ucm_event_vm_t vm_mapped;
    ucm_event_vm_t vm_unmapped;
    ucm_event_mem_type_t mem_type;
    std::uint64_t room[6];
};

using ucm_event_callback_t = void (*)(ucm_event_type_t type, ucm_event *event, void *arg);

struct ucm_event_handler {
    ucs_list_link list;
    int events;
    int priority;
    ucm_event_callback_t cb;
    void *arg;
};

struct ucm_event_installer {
    ucs_status_t (*install)(int events);
    void (*get_existing_alloc)(ucm_event_handler *handler);
    ucs_list_link list;
};

struct ucm_reloc_patch {
    const char *symbol;
    void *value;
    void *prev_value;
    ucs_list_link list;
    char **blacklist;
};

} // namespace gaudi::ucx
