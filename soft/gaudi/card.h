// SPDX-License-Identifier: BSD-3-Clause
// One card as this process sees it: the shared state, the card's files, and the threads that run its queues for the
// submissions of this process.
#pragma once

#include "blocks.h"
#include "clock.h"
#include "config.h"
#include "job.h"
#include "os/mutex.h"
#include "pinned_memory.h"
#include "state.h"
#include "store.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace softgaudi {

class Card;
class QueueThread;

/// Holds the lock of a card's state.
class GAUDI_SCOPED_CAPABILITY CardLock {
public:
    explicit CardLock(Card &card) GAUDI_ACQUIRE(card);
    ~CardLock() GAUDI_RELEASE();
    CardLock(const CardLock &) = delete;
    CardLock &operator=(const CardLock &) = delete;

    void unlock() GAUDI_RELEASE();
    void lock() GAUDI_ACQUIRE();

private:
    Card &m_card;
    bool m_held = false;
};

/// The error that stopped a stream of packets.
struct DeviceError {
    enum class Kind { page_fault, illegal_register, undefined_opcode } kind;
    uint64_t address;
    bool write = false;
    uint32_t queue = 0;
};

/// Where a device address leads.
struct Place {
    enum class Kind { nowhere, host, block, sram, buffer, registers } kind = Kind::nowhere;
    uint64_t length = 0;   // bytes from here on that refer to the same thing
    uint64_t position = 0; // pointer, offset in the block, in SRAM, in the node's file, or from cfg_base
    uint32_t handle = 0;
    int32_t pid = 0;     // host: the owner of the memory,
    Pin pin = kUnpinned; // and its pages; all of `length` is in the slot
};

/// For the compiler a card is a lock: that of its state, which CardLock takes.
class GAUDI_CAPABILITY("card") Card {
public:
    Card(const Config &config, Clock &clock, PinnedMemory &pins, unsigned index);
    ~Card();
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    /// False, with errno, when the card's files could not be set up.
    bool ready() const { return m_state != nullptr; }

    const Config &config() const { return m_config; }
    const Model &model() const { return m_config.model; }
    const Behaviour &behaviour() const { return m_config.behaviour; }
    Clock &clock() const { return m_clock; }
    /// Charges a copy to the budget of SOFTGAUDI_PACE=null:MIB; false when that is used up.
    bool charge_copy(uint64_t bytes);
    unsigned index() const { return m_index; } // of the node: accel0 is 0
    /// The card's number for users, in SOFTGAUDI_FAULTS and softgaudi_stat as in the product.
    uint32_t module_id() const { return softgaudi::module_id(m_index, m_config.cards); }
    /// For code that the compiler cannot follow, such as a callback.
    void assert_locked() const GAUDI_ASSERT_HELD(this) { m_state->mutex.assert_held(); }
    CardState &state() const { return *m_state; }
    Context &context() const { return m_state->context; }
    Blocks &blocks() { return m_blocks; }
    const FileId &compute_id() const { return m_compute_id; }
    const FileId &control_id() const { return m_control_id; }
    int node_file() const { return m_node.get(); }
    void close_node_file() { m_node = File(); }
    int sram_file() const { return m_sram.get(); }

    // ---- nodes (card.cpp): return a descriptor or -errno
    int open_compute();
    int open_control();
    /// Whether the last open of this process returned another descriptor.
    bool is_duplicate(int fd) const { return fd != m_opened; }
    /// Called after a descriptor was closed: ends the context if that was the last one.
    void handle_close();
    bool in_use();
    hl_device_status status() GAUDI_REQUIRES(this);
    /// 0, or the errno (ENODEV, EBUSY) for everything but information.
    int refusal() const GAUDI_REQUIRES(this);

    // ---- memory (card_memory.cpp, card_buffers.cpp)
    int allocate(uint64_t size, uint64_t page, bool contiguous, uint64_t &handle) GAUDI_REQUIRES(this);
    int free(uint64_t handle) GAUDI_REQUIRES(this);
    int map_device(uint64_t handle, uint64_t hint, bool force, uint64_t &address) GAUDI_REQUIRES(this);
    /// Pins the pages of host memory that map_host() is to map, without the lock, because it takes long. An error is an errno.
    tl::expected<Pin, int> pin_host(uint64_t pointer, uint64_t size);
    void unpin_host(const Pin &pin, uint64_t pointer, uint64_t size);
    int map_host(uint64_t pointer, uint64_t size, const Pin &pin, uint64_t hint, bool force, uint64_t &address)
        GAUDI_REQUIRES(this);
    int unmap(uint64_t address) GAUDI_REQUIRES(this);
    int export_dmabuf(uint64_t address, uint64_t size, uint64_t offset) GAUDI_REQUIRES(this);
    int create_buffer(uint32_t size, bool mapped, bool timestamps, uint64_t &handle) GAUDI_REQUIRES(this);
    int destroy_buffer(uint64_t handle) GAUDI_REQUIRES(this);
    Buffer *find_buffer(uint64_t handle, uint64_t *offset = nullptr) GAUDI_REQUIRES(this);
    std::vector<uint32_t> device_handles() GAUDI_REQUIRES(this);

    Place translate(uint64_t address) const GAUDI_REQUIRES(this);
    const Mapping *find_mapping(uint64_t address) const GAUDI_REQUIRES(this);

    // ---- host memory (card_host.cpp): the card's accesses to `size` bytes at a position in a place of kind host
    bool read_host(const Place &place, uint64_t position, void *out, size_t size);
    bool write_host(const Place &place, uint64_t position, const void *data, size_t size);
    /// Stores 4 or 8 bytes at once for a program that polls them.
    bool store_host(const Place &place, uint64_t value, size_t size);
    /// The ring that has the pinned pages of the place; null, and counted, when an access is not to pinned pages.
    std::shared_ptr<PinRing> pinned(const Place &place);

    // ---- submission (card_submission.cpp)
    struct Submission {
        std::span<const hl_cs_chunk> chunks;
        uint32_t flags = 0;
        uint64_t timeout_ns = 0; // 0 is the driver's default
        bool hang = false;
        bool skip = false; // its copies move no bytes
        Job::Kind kind = Job::Kind::commands;
        uint64_t awaited = 0;
    };
    int submit(const Submission &submission, uint64_t &seq);
    int wait(uint64_t seq, uint64_t timeout_us, uint32_t &status, uint64_t *timestamp);
    bool idle();
    /// Times out the oldest submission if it is due; returns when to check again.
    uint64_t expire() GAUDI_REQUIRES(this);
    bool running(const Job &job) const;
    uint32_t in_flight() const;
    /// Null for a queue that copies.
    const BadQueue *find_bad_queue(uint32_t queue) const;
    /// Whether the message after the next copy overtakes it (quirk early_flag): rarely, and only on a loaded card.
    bool is_message_early();
    void finish(const Job &job);

    // ---- errors and events (card_events.cpp)
    void device_error(const DeviceError &error, const Job &job) GAUDI_REQUIRES(this);
    void hard_reset(uint64_t events) GAUDI_REQUIRES(this);
    /// A reset for an error of the program's. As the driver does it, a program with a notifier has time to close the card first
    /// (quirk kill).
    void request_reset(uint64_t events) GAUDI_REQUIRES(this);
    /// Drops the queued work of processes that died while others share the card; whether other processes have work here.
    bool drop_work_of_the_dead() GAUDI_REQUIRES(this);
    /// Ends the context of a process that died without closing the card, as the driver does when its last descriptor goes.
    void end_context_of_dead_holder() GAUDI_REQUIRES(this);
    void mark_lost() GAUDI_REQUIRES(this);
    void raise(uint64_t events) GAUDI_REQUIRES(this);
    int create_notifier() GAUDI_REQUIRES(this);
    int release_notifier(int handle) GAUDI_REQUIRES(this);
    void drop_notifier() GAUDI_REQUIRES(this);
    /// Wakes streams that wait at a fence.
    void wake_parked() GAUDI_REQUIRES(this);
    void wake_all_waiters() GAUDI_REQUIRES(this);

    // ---- interrupts (card_interrupts.cpp)
    void fire_interrupt(uint32_t interrupt) GAUDI_REQUIRES(this);
    int wait_interrupt(const void *pointer, std::optional<uint64_t> slot, uint64_t target, uint32_t interrupt,
                       uint64_t timeout_us, uint32_t &status, uint64_t *timestamp);
    int register_timestamp(uint32_t interrupt, uint64_t counter, uint64_t target, uint64_t record);

private:
    friend class CardLock;

    bool set_up(const std::string &dir);
    void start_context() GAUDI_REQUIRES(this);
    void end_context() GAUDI_REQUIRES(this);
    void unpin_all() GAUDI_REQUIRES(this);
    void recover_from_dead_holder() GAUDI_REQUIRES(this);
    int map(Mapping mapping, const Range &range, const Range &firmware, uint64_t alignment, uint64_t hint, bool force,
            uint64_t &address) GAUDI_REQUIRES(this);
    void wait_for_room(CardLock &lock, const Event &event) GAUDI_REQUIRES(this);
    void enqueue(const Job &job) GAUDI_REQUIRES(this);
    void end_submission(Slot &slot, SlotStatus status) GAUDI_REQUIRES(this);
    void abort_submissions() GAUDI_REQUIRES(this);
    void kill_opener_later() GAUDI_REQUIRES(this);
    void reset_later() GAUDI_REQUIRES(this);

    const Config &m_config;
    Clock &m_clock;
    PinnedMemory &m_pins;
    std::atomic<uint64_t> m_charged{0};       // bytes counted by charge_copy
    std::atomic<uint64_t> m_loaded_copies{0}; // counted by is_message_early
    std::atomic<int> m_opened{-1};            // the descriptor that the last open returned
    const unsigned m_index;
    CardState *m_state = nullptr;
    std::string m_dir;
    Blocks m_blocks;
    File m_node; // the node's file without its lock; holds the driver-owned buffers
    File m_sram;
    FileId m_compute_id, m_control_id;

    gaudi::os::Mutex m_queues_mutex{soft::Rank::queue_threads};
    std::vector<std::unique_ptr<QueueThread>> m_queues GAUDI_GUARDED_BY(m_queues_mutex);
};

} // namespace softgaudi
