// SPDX-License-Identifier: BSD-3-Clause
// What UCX's modules share with libucs, declared by hand for x86_64 and UCX 1.22 to 1.23. Names are UCX's own, so that
// its documentation applies; layouts are pinned in layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gaudi::ucx {

// ---- status ---------------------------------------------------------------------------------------------------------

/// One byte wide: a caller reads no more of the return register.
enum ucs_status_t : std::int8_t {
    UCS_OK = 0,
    UCS_INPROGRESS = 1,
    UCS_ERR_NO_MESSAGE = -1,
    UCS_ERR_NO_RESOURCE = -2,
    UCS_ERR_IO_ERROR = -3,
    UCS_ERR_NO_MEMORY = -4,
    UCS_ERR_INVALID_PARAM = -5,
    UCS_ERR_UNREACHABLE = -6,
    UCS_ERR_INVALID_ADDR = -7,
    UCS_ERR_NOT_IMPLEMENTED = -8,
    UCS_ERR_MESSAGE_TRUNCATED = -9,
    UCS_ERR_NO_PROGRESS = -10,
    UCS_ERR_BUFFER_TOO_SMALL = -11,
    UCS_ERR_NO_ELEM = -12,
    UCS_ERR_SOME_CONNECTS_FAILED = -13,
    UCS_ERR_NO_DEVICE = -14,
    UCS_ERR_BUSY = -15,
    UCS_ERR_CANCELED = -16,
    UCS_ERR_SHMEM_SEGMENT = -17,
    UCS_ERR_ALREADY_EXISTS = -18,
    UCS_ERR_OUT_OF_RANGE = -19,
    UCS_ERR_TIMED_OUT = -20,
    UCS_ERR_EXCEEDS_LIMIT = -21,
    UCS_ERR_UNSUPPORTED = -22,
    UCS_ERR_REJECTED = -23,
    UCS_ERR_NOT_CONNECTED = -24,
    UCS_ERR_CONNECTION_RESET = -25,
    UCS_ERR_ENDPOINT_TIMEOUT = -80,
};

// ---- memory ---------------------------------------------------------------------------------------------------------

enum ucs_memory_type_t : unsigned {
    UCS_MEMORY_TYPE_HOST = 0,
    UCS_MEMORY_TYPE_CUDA = 1,
    UCS_MEMORY_TYPE_CUDA_MANAGED = 2,
    UCS_MEMORY_TYPE_ROCM = 3,
    UCS_MEMORY_TYPE_ROCM_MANAGED = 4,
    UCS_MEMORY_TYPE_RDMA = 5,
    UCS_MEMORY_TYPE_ZE_HOST = 6,
    UCS_MEMORY_TYPE_ZE_DEVICE = 7,
    UCS_MEMORY_TYPE_ZE_MANAGED = 8,
    UCS_MEMORY_TYPE_GAUDI = 9,
    UCS_MEMORY_TYPE_LAST = 10,
    UCS_MEMORY_TYPE_UNKNOWN = UCS_MEMORY_TYPE_LAST,
};

constexpr std::uint64_t memory_type_bit(ucs_memory_type_t type) { return std::uint64_t{1} << type; }

using ucs_sys_device_t = std::uint8_t;
constexpr ucs_sys_device_t UCS_SYS_DEVICE_ID_UNKNOWN = 255;

/// An RDMA domain registers only memory that has this flag.
constexpr std::uint8_t UCS_MEM_FLAG_REGISTRABLE = 1;

struct ucs_memory_info {
    ucs_memory_type_t type;
    ucs_sys_device_t sys_dev;
    void *base_address;
    std::size_t alloc_length;
    std::uint8_t mem_flags;
};

// ---- lists, classes, callbacks --------------------------------------------------------------------------------------

struct ucs_list_link {
    ucs_list_link *prev;
    ucs_list_link *next;
};

inline void list_init(ucs_list_link &head) { head.prev = head.next = &head; }

inline void list_add_tail(ucs_list_link &head, ucs_list_link &element) {
    element.prev = head.prev;
    element.next = &head;
    head.prev->next = &element;
    head.prev = &element;
}

struct ucs_class {
    const char *name;
    std::size_t size;
    ucs_class *superclass;
    void *init;    // its arguments depend on the class
    void *cleanup; // of the class alone; ucs_class_call_cleanup_chain calls all of them
};

using ucs_callback_t = unsigned (*)(void *arg);

struct ucs_callbackq_elem {
    ucs_callback_t cb;
    void *arg;
};

struct ucs_callbackq {
    ucs_callbackq_elem fast_elems[8];
    void *priv;
};

struct ucs_async_context; // only passed through

enum ucs_async_mode_t : unsigned { UCS_ASYNC_MODE_THREAD_SPINLOCK = 1 };
using ucs_event_set_types_t = std::uint8_t;
enum : unsigned { UCS_EVENT_SET_EVREAD = 1u << 0 };
using ucs_async_event_cb_t = void (*)(int id, ucs_event_set_types_t events, void *arg);

enum ucs_thread_mode_t : unsigned {
    UCS_THREAD_MODE_SINGLE = 0,
    UCS_THREAD_MODE_SERIALIZED = 1,
    UCS_THREAD_MODE_MULTI = 2,
};

struct ucs_cpu_set {
    std::uint64_t bits[16];
};

/// c + m * x
struct ucs_linear_func {
    double c;
    double m;
};

// ---- log ------------------------------------------------------------------------------------------------------------

enum ucs_log_level_t : unsigned {
    UCS_LOG_LEVEL_FATAL = 0,
    UCS_LOG_LEVEL_ERROR = 1,
    UCS_LOG_LEVEL_WARN = 2,
    UCS_LOG_LEVEL_DIAG = 3,
    UCS_LOG_LEVEL_INFO = 4,
    UCS_LOG_LEVEL_DEBUG = 5,
    UCS_LOG_LEVEL_TRACE = 6,
    UCS_LOG_LEVEL_TRACE_REQ = 7,
    UCS_LOG_LEVEL_TRACE_DATA = 8,
    UCS_LOG_LEVEL_TRACE_ASYNC = 9,
    UCS_LOG_LEVEL_TRACE_FUNC = 10,
    UCS_LOG_LEVEL_TRACE_POLL = 11,
};

struct ucs_log_component_config {
    ucs_log_level_t log_level;
    char name[16];
    const char *file_filter;
};

/// The beginning of UCX's struct, which is all that is read: the rest moves between minor versions.
struct ucs_global_opts_t {
    ucs_log_component_config log_component;
};

// ---- configuration --------------------------------------------------------------------------------------------------

struct ucs_string_buffer; // only passed through

struct ucs_config_parser {
    int (*read)(const char *text, void *value, const void *arg); // 1 when the text was understood
    int (*write)(char *text, std::size_t size, const void *value, const void *arg);
    ucs_status_t (*clone)(const void *source, void *target, const void *arg);
    void (*release)(void *value, const void *arg);
    void (*help)(char *text, std::size_t size, const void *arg);
    void (*doc)(ucs_string_buffer *text, const void *arg);
    const void *arg;
};

/// A row of a table. A table ends with a row of zeros; a row without a name is a table inside the table.
struct ucs_config_field {
    const char *name;
    const char *dfl_value;
    const char *doc;
    std::size_t offset;
    ucs_config_parser parser;
};

struct ucs_config_global_list_entry {
    const char *name;
    const char *prefix;
    ucs_config_field *table;
    std::size_t size;
    ucs_list_link list;
    std::uint8_t flags;
};

struct ucs_config_key_field {
    const char *name;
    const char *doc;
    std::size_t offset;
};

struct ucs_config_key_value_param {
    ucs_config_parser parser;
    const ucs_config_key_field *keys; // ends with a row of zeros
};

enum ucs_ternary_auto_value_t : unsigned { UCS_NO = 0, UCS_YES = 1, UCS_TRY = 2, UCS_AUTO = 3 };

constexpr std::size_t UCS_MEMUNITS_INF = static_cast<std::size_t>(-1);
constexpr std::size_t UCS_MEMUNITS_AUTO = static_cast<std::size_t>(-2);
constexpr double UCS_CONFIG_DBL_AUTO = -2;

} // namespace gaudi::ucx
