// SPDX-License-Identifier: BSD-3-Clause
// The state of one card, in a file that every process using the card maps: a descriptor that was inherited or passed to
// another process must refer to the same context. Tables of fixed size; CardState::mutex guards all but the atomics.
#pragma once

#include "common/lock_ranks.h"
#include "functions.h"
#include "model.h"
#include "pin.h"
#include "shared.h"
#include "thunk/abi.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace softgaudi {

inline constexpr uint32_t kMaxPages = 4096;
inline constexpr uint32_t kMaxMappings = 65536;
inline constexpr uint32_t kMaxBuffers = 4096; // command and timestamp buffers
inline constexpr uint32_t kMaxTimestamps = 4096;
inline constexpr uint64_t kWindow = 64; // size of the submission window
inline constexpr uint32_t kSyncManagers = 4;
inline constexpr uint32_t kSyncObjects = 8192;
inline constexpr uint32_t kMonitors = 2048;
inline constexpr uint32_t kCompletionQueues = 64;
inline constexpr uint32_t kQueueManagers = (kQueues + kStreams - 1) / kStreams;
inline constexpr uint32_t kProcessors = kStreams + 1; // per queue manager: one per stream, and the lower one
inline constexpr uint32_t kFences = 4;                // per command processor
inline constexpr uint32_t kQueueLength = 4096;        // chunks that a queue holds
inline constexpr uint32_t kOutcomes = 256;            // finished submissions whose timestamp is kept
inline constexpr uint32_t kInterrupts = 512;

struct Allocation {
    uint32_t handle; // 0 is a free entry
    uint32_t mappings;
    uint64_t size; // rounded up to pages
    uint64_t page;
};

enum class MappingKind : uint8_t { device, host, buffer };

/// One mapping; the table is sorted by address.
struct Mapping {
    uint64_t address; // page aligned
    uint64_t size;    // whole pages
    uint64_t source;  // host: page-aligned pointer; buffer: offset in the card's file
    uint32_t handle;  // device: allocation; buffer: its slot
    uint32_t id;      // unique in the context; the byte that exports of this mapping lock
    int32_t pid;      // host: the process that owns the memory
    Pin pin;          // host
    uint16_t shift;   // host: offset of the caller's pointer in its page
    MappingKind kind;
};

struct Buffer {
    bool used;
    bool timestamps; // else a command buffer
    uint32_t size;
    uint64_t address; // device address of a mapped one, else 0
};

enum class SlotStatus : uint32_t { free, running, done, timed_out, aborted };

/// One entry of the submission window; submission n uses entry n % kWindow.
struct Slot {
    std::atomic<uint64_t> seq;
    std::atomic<SlotStatus> status;
    int32_t pid;        // of the process that submitted
    uint32_t remaining; // chunks that still run
    bool hung;          // a fault keeps it running until its timeout
    bool skip_reset;
    bool wants_timestamp;
    bool signal; // a signal submission, which wait submissions can name
    uint64_t timeout_ns;
    uint64_t timed_from; // when it became the oldest submission; 0 before
    uint64_t timestamp;  // when it completed, monotonic
    Event changed;
};

/// The result of a submission that is no longer in the window; kept if it requested a timestamp.
struct Outcome {
    uint64_t seq; // 0 is a free entry
    uint64_t timestamp;
    SlotStatus status;
};

struct Monitor {
    uint32_t address_low, address_high, data, arm, config;
    bool armed;
};

struct CompletionQueue {
    uint32_t base_low, base_high, size_log2, producer;
    uint32_t message_low, message_high, message_data, increment;
};

struct SyncManager {
    std::array<uint32_t, kSyncObjects> objects;
    std::array<Monitor, kMonitors> monitors;
    std::array<CompletionQueue, kCompletionQueues> queues;
};

struct TimestampRequest {
    bool used;
    uint32_t interrupt;
    uint64_t counter; // offset in the card's file
    uint64_t target;
    uint64_t record; // offset in the card's file
};

/// Until when each resource of the card is busy, on the model's clock.
struct Links {
    uint64_t down, up, card, submit;
};

/// Everything that an open creates and the last close destroys.
struct Context {
    std::atomic<uint64_t> id;
    int32_t opener;
    bool dead;          // the card was reset while this context was open
    bool released_soon; // an error was reported by the notifier, and the reset waits for the close (quirk kill)
    bool debug_mode;
    bool error_recorded;   // only the first error of a context is recorded; later ones are its consequences
    bool timeout_recorded; // only the first timeout is recorded, too; it need not end the context

    uint32_t next_handle;
    uint32_t next_mapping;
    uint32_t mapping_count;
    uint64_t dram_used;
    std::array<Allocation, kMaxPages> allocations;
    std::array<uint32_t, kMaxPages> page_owner; // handle, 0 is free
    std::array<Mapping, kMaxMappings> mappings;
    std::array<Buffer, kMaxBuffers> buffers;
    uint32_t next_buffer; // where the search for a free entry starts

    uint64_t next_seq; // number of the next submission
    std::array<Slot, kWindow> slots;
    std::array<uint64_t, kQueues> queue_ticket;  // next ticket to hand out
    std::array<uint64_t, kQueues> queue_serving; // ticket of the job that may run
    // By ticket: the process that has the job. Never cleared, so that pages of unused queues are not allocated.
    std::array<std::array<int32_t, kQueueLength>, kQueues> queue_owner;
    std::array<uint32_t, kQueues> queue_load; // chunks in the queue
    std::array<std::array<std::array<uint32_t, kFences>, kProcessors>, kQueueManagers> fences;
    std::array<Outcome, kOutcomes> outcomes;
    uint32_t next_outcome;
    uint32_t signals; // signals sent so far
    Event parked;     // wakes streams that wait for a fence, their turn or a timeout

    std::array<SyncManager, kSyncManagers> sync;
    std::array<TimestampRequest, kMaxTimestamps> timestamps;
    std::array<Event, kInterrupts> interrupts;
    Event any_interrupt;

    uint64_t events;      // event mask that notifier_recv reads and clears
    int32_t notifier_pid; // the process that registered; 0 is none
    int32_t notifier_fd;  // that process's private duplicate of the eventfd

    Links links;
    hl_info_cs_counters cs_counters;
};

inline constexpr uint32_t kFaultMappings = 256;

/// Records that outlive contexts.
struct Records {
    hlthunk_event_record_open_dev_time open;
    hlthunk_event_record_cs_timeout cs_timeout;
    hlthunk_event_record_razwi_event razwi;
    hlthunk_event_record_undefined_opcode undefined_opcode;
    bool page_fault_valid;
    hlthunk_page_fault_info page_fault; // its pointer is unused
    uint32_t page_fault_mappings;
    std::array<hlthunk_page_fault_mapping, kFaultMappings> mappings;
};

/// Counters of bytes and events, for tests and softgaudi_stat.
struct Traffic {
    std::atomic<uint64_t> down_bytes, up_bytes, card_bytes, fill_bytes, host_bytes;
    std::atomic<uint64_t> not_made_bytes;    // of copies and fills that moved nothing (pace null, fault skip)
    std::atomic<uint64_t> unpinned_accesses; // to host memory that is not pinned, or whose pins could not be reached
    std::atomic<uint64_t> submissions, packets, maps, exports;
    std::atomic<uint64_t> busy_ns;
};

struct CardState {
    static constexpr uint32_t kMagic = 0x50475335; // must change with the layout

    std::atomic<uint32_t> magic;
    RobustMutex<soft::Rank::card> mutex;

    bool lost;
    bool in_reset;
    uint32_t hard_resets;
    uint64_t open_counter;
    uint64_t last_open_ns, last_close_ns; // monotonic
    uint64_t next_context;
    std::array<uint32_t, 1024> hw_events;
    Records records;

    std::array<std::atomic<uint64_t>, kFunctions.size()> calls;
    Traffic traffic;

    Context context;
};

} // namespace softgaudi
