// SPDX-License-Identifier: BSD-3-Clause
#include "card.h"

#include "os/format.h"
#include "queue_thread.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softgaudi {

// The compiler takes the card for the lock, so it cannot follow these four down to the mutex.
CardLock::CardLock(Card &card) GAUDI_NO_THREAD_SAFETY_ANALYSIS : m_card(card) { lock(); }

CardLock::~CardLock() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    if (m_held)
        unlock();
}

void CardLock::lock() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    const bool broken = m_card.m_state->mutex.lock();
    m_held = true;
    if (broken)
        m_card.recover_from_dead_holder();
}

void CardLock::unlock() GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    m_held = false;
    m_card.m_state->mutex.unlock();
}

Card::Card(const Config &config, Clock &clock, PinnedMemory &pins, unsigned index)
    : m_config(config), m_clock(clock), m_pins(pins), m_index(index),
      m_dir(gaudi::os::format("{}/{}-card{}", config.dir, config.model.name, index)),
      m_blocks(m_dir, config.quirks.posted) {
    if (!set_up(m_dir))
        m_state = nullptr;
}

Card::~Card() = default;

bool Card::charge_copy(uint64_t bytes) {
    return m_config.pace.moved_first != 0 && m_charged.fetch_add(bytes) + bytes <= m_config.pace.moved_first;
}

bool Card::set_up(const std::string &dir) {
    if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
        return false;
    const auto make = [&](const char *name) {
        return File(open(gaudi::os::format("{}/{}", dir, name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    };
    m_node = make("accel");
    m_sram = make("sram");
    const File control = make("control");
    if (!m_node || !m_sram || !control)
        return false;
    if (model().sram_bytes && ftruncate(m_sram.get(), static_cast<off_t>(model().sram_bytes)) != 0)
        return false;
    const auto compute_id = file_id(m_node.get());
    const auto control_id = file_id(control.get());
    if (!compute_id || !control_id)
        return false;
    m_compute_id = *compute_id;
    m_control_id = *control_id;

    void *memory = map_shared(gaudi::os::format("{}/state", dir), sizeof(CardState), [](void *fresh) {
        auto *state = static_cast<CardState *>(fresh);
        state->mutex.init();
        state->magic.store(CardState::kMagic, std::memory_order_release);
    });
    m_state = static_cast<CardState *>(memory);
    if (!m_state)
        return false;
    if (m_state->magic.load(std::memory_order_acquire) != CardState::kMagic) {
        errno = EPROTO;
        return false;
    }
    const CardLock lock(*this);
    if (!is_any_byte_locked(m_node.get()))
        m_blocks.remove_unexported(); // left behind by processes that died
    return true;
}

/// The last holder of the lock died with it: the tables may be inconsistent.
void Card::recover_from_dead_holder() {
    m_state->in_reset = true;
    m_state->hard_resets++;
    context().dead = true;
    abort_submissions();
    wake_all_waiters();
}

bool Card::in_use() { return is_any_byte_locked(m_node.get()) || m_blocks.has_exports(); }

hl_device_status Card::status() {
    if (m_state->lost)
        return HL_DEVICE_STATUS_MALFUNCTION;
    // A reset lasts until the card is closed.
    if (m_state->in_reset && in_use())
        return HL_DEVICE_STATUS_IN_RESET;
    return HL_DEVICE_STATUS_OPERATIONAL;
}

int Card::refusal() const {
    if (m_state->lost)
        return ENODEV;
    if (context().dead || m_state->in_reset)
        return EBUSY;
    return 0;
}

void Card::start_context() {
    Context &context = m_state->context;
    const uint64_t id = ++m_state->next_context;
    unpin_all(); // what a holder that died had mapped
    // Sequence numbers and tickets start anew; jobs of the old context see the new id and stop.
    std::memset(static_cast<void *>(&context.allocations), 0, sizeof(context.allocations));
    std::memset(static_cast<void *>(&context.page_owner), 0, sizeof(context.page_owner));
    std::memset(static_cast<void *>(&context.buffers), 0, sizeof(context.buffers));
    std::memset(static_cast<void *>(&context.timestamps), 0, sizeof(context.timestamps));
    std::memset(static_cast<void *>(&context.sync), 0, sizeof(context.sync));
    context.queue_ticket.fill(0);
    context.queue_serving.fill(0);
    context.queue_load.fill(0);
    context.fences = {};
    context.outcomes = {};
    context.next_outcome = 0;
    context.signals = 0;
    for (Slot &slot : context.slots) {
        slot.seq.store(0, std::memory_order_relaxed);
        slot.status.store(SlotStatus::free, std::memory_order_relaxed);
        slot.changed.signal();
    }
    context.mapping_count = 0;
    context.next_handle = 1;
    context.next_mapping = 1;
    context.next_buffer = 0;
    context.dram_used = 0;
    context.next_seq = 1;
    context.events = 0;
    context.notifier_pid = 0;
    context.notifier_fd = -1;
    context.links = {};
    context.cs_counters = {};
    context.debug_mode = false;
    context.error_recorded = false;
    context.timeout_recorded = false;
    context.dead = false;
    context.released_soon = false;
    context.opener = getpid();
    context.id.store(id);
    // Drops the old context's command buffers, then makes the file long enough for every buffer handle.
    if (ftruncate(m_node.get(), 0) != 0 || ftruncate(m_node.get(), (int64_t{1} << 60) + (int64_t{1} << 40)) != 0)
        std::fprintf(stderr, "softgaudi: cannot resize the node file of card %u: %s\n", module_id(),
                     std::strerror(errno));
    wake_all_waiters();
}

int Card::open_compute() {
    File node(open(gaudi::os::format("{}/accel", m_dir).c_str(), O_RDWR | O_CLOEXEC));
    if (!node)
        return -errno;
    const CardLock lock(*this);
    if (m_state->lost)
        return -ENODEV;
    end_context_of_dead_holder();
    if (!lock_exclusive(node.get())) {
        if (const int refused = behaviour().second_open)
            return -refused;
        return node.release();
    }
    // A live export keeps the card in use even after its exporter exited.
    if (m_blocks.remove_unexported())
        return -EBUSY;
    drop_notifier();
    m_state->in_reset = false;
    start_context();
    m_state->open_counter++;
    m_state->last_open_ns = monotonic_ns();
    m_state->last_close_ns = 0;
    m_state->records.open.timestamp = realtime_ns();
    m_opened = node.get();
    return node.release();
}

int Card::open_control() {
    File node(open(gaudi::os::format("{}/control", m_dir).c_str(), O_RDWR | O_CLOEXEC));
    const CardLock lock(*this);
    if (m_state->lost)
        return -ENODEV;
    return node ? node.release() : -errno;
}

void Card::handle_close() {
    {
        const CardLock lock(*this);
        if (is_any_byte_locked(m_node.get()))
            return;
        end_context();
    }
    // Closing a card returns when its engines have stopped: nothing may write to host memory afterwards.
    std::vector<QueueThread *> queues;
    {
        const gaudi::os::MutexLock lock(m_queues_mutex);
        for (const auto &queue : m_queues)
            if (queue)
                queues.push_back(queue.get());
    }
    for (QueueThread *queue : queues)
        queue->drain();
}

void Card::end_context() {
    Context &context = m_state->context;
    if (context.opener == 0)
        return;
    if (!idle() || context.released_soon)
        m_state->hard_resets++; // the driver finds the engines busy, or has waited for the close
    context.released_soon = false;
    abort_submissions();
    drop_notifier();
    context.dead = true;
    context.opener = 0;
    unpin_all();
    context.mapping_count = 0;
    m_state->in_reset = false;
    m_state->last_close_ns = monotonic_ns();
    if (!m_blocks.remove_unexported())
        context.dram_used = 0; // else an export keeps the memory in use
    wake_all_waiters();
}

} // namespace softgaudi
