// SPDX-License-Identifier: BSD-3-Clause
// Errors of a card: records, notification, reset.
#include "card.h"
#include "host_memory.h"
#include "os/system_call.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace softgaudi {
namespace {

constexpr uint64_t kDramFaultMask = ~uint64_t{0x3FFFFFF}; // the card reports device pages of 64 MiB
constexpr uint64_t kHostFaultMask = ~uint64_t{0xFF};      // and lines of 256 bytes elsewhere

} // namespace

void Card::abort_submissions() {
    for (Slot &slot : context().slots) {
        if (slot.status.load() != SlotStatus::running)
            continue;
        slot.status.store(SlotStatus::aborted);
        slot.changed.signal();
    }
}

void Card::wake_parked() {
    m_clock.wake_parked(m_index);
    context().parked.signal();
}

void Card::wake_all_waiters() {
    wake_parked();
    for (Slot &slot : context().slots)
        slot.changed.signal();
    for (Event &event : context().interrupts)
        event.signal();
    context().any_interrupt.signal();
}

void Card::device_error(const DeviceError &error, const Job &job) {
    Context &context = this->context();
    Records &records = m_state->records;
    const bool first = !context.error_recorded;
    context.error_recorded = true;
    uint64_t events = HL_NOTIFIER_EVENT_USER_ENGINE_ERR;
    m_state->hw_events[error.queue % m_state->hw_events.size()]++;
    switch (error.kind) {
    case DeviceError::Kind::page_fault:
        events |= HL_NOTIFIER_EVENT_PAGE_FAULT;
        if (!first)
            break;
        records.page_fault = {};
        records.page_fault.timestamp = realtime_ns();
        records.page_fault.addr =
            error.address & (model().dram.contains(error.address, 1) ? kDramFaultMask : kHostFaultMask);
        records.page_fault.engine_id = static_cast<uint16_t>(error.queue / kStreams);
        records.page_fault_mappings = std::min(context.mapping_count, kFaultMappings);
        for (uint32_t i = 0; i < records.page_fault_mappings; ++i)
            records.mappings[i] = {context.mappings[i].address, context.mappings[i].size};
        records.page_fault_valid = true;
        break;
    case DeviceError::Kind::illegal_register:
        events |= HL_NOTIFIER_EVENT_RAZWI;
        if (!first)
            break;
        records.razwi = {};
        records.razwi.timestamp = realtime_ns();
        records.razwi.addr = error.address;
        records.razwi.engine_id[0] = static_cast<uint16_t>(error.queue / kStreams);
        records.razwi.num_of_possible_engines = 1;
        records.razwi.flags = static_cast<uint8_t>((error.write ? HL_RAZWI_WRITE : HL_RAZWI_READ) | HL_RAZWI_LBW);
        break;
    case DeviceError::Kind::undefined_opcode:
        events |= HL_NOTIFIER_EVENT_UNDEFINED_OPCODE;
        if (!first)
            break;
        records.undefined_opcode = {};
        records.undefined_opcode.timestamp = realtime_ns();
        records.undefined_opcode.cq_addr = error.address;
        records.undefined_opcode.cq_size = job.size;
        records.undefined_opcode.engine_id = error.queue / kStreams;
        records.undefined_opcode.stream_id = error.queue % kStreams;
        records.undefined_opcode.cb_addr_streams[error.queue % kStreams][0] = job.address;
        records.undefined_opcode.cb_addr_streams_len = 1;
        break;
    }
    request_reset(events);
}

void Card::request_reset(uint64_t events) {
    Context &context = this->context();
    if (!m_config.quirks.kill || (context.notifier_pid == 0 && !context.released_soon))
        return hard_reset(events);
    raise(events | HL_NOTIFIER_EVENT_DEVICE_RESET);
    if (!std::exchange(context.released_soon, true))
        reset_later();
    wake_all_waiters();
}

void Card::reset_later() {
    std::thread([this, id = context().id.load()] {
        std::this_thread::sleep_for(std::chrono::seconds(m_config.quirks.window_s));
        const CardLock lock(*this);
        if (context().id.load() == id && context().released_soon)
            hard_reset(0);
    }).detach();
}

/// The reset lasts until the card is closed; until then only information is available.
void Card::hard_reset(uint64_t events) {
    m_state->in_reset = true;
    m_state->hard_resets++;
    context().dead = true;
    context().released_soon = false;
    abort_submissions();
    if (events != 0)
        raise(events | HL_NOTIFIER_EVENT_DEVICE_RESET);
    wake_all_waiters();
    if (m_config.quirks.kill)
        kill_opener_later();
}

/// The driver waits a second for the card to be closed, and then kills the process that opened it.
void Card::kill_opener_later() {
    static constexpr std::chrono::seconds kGrace(1);
    std::thread([this, id = context().id.load(), opener = context().opener] {
        std::this_thread::sleep_for(kGrace);
        const CardLock lock(*this);
        if (context().id.load() == id && context().opener == opener && opener != 0 && in_use())
            ::kill(opener, SIGKILL);
    }).detach();
}

bool Card::drop_work_of_the_dead() {
    Context &context = this->context();
    std::vector<std::pair<int32_t, bool>> known; // processes, and whether they live
    const auto lives = [&](int32_t pid) {
        if (pid == getpid())
            return true;
        const auto found =
            std::find_if(known.begin(), known.end(), [&](const auto &entry) { return entry.first == pid; });
        return found != known.end() ? found->second : known.emplace_back(pid, is_process_alive(pid)).second;
    };
    for (Slot &slot : context.slots)
        if (slot.status.load() == SlotStatus::running && !lives(slot.pid))
            end_submission(slot, SlotStatus::aborted);
    if (std::none_of(known.begin(), known.end(), [](const auto &entry) { return !entry.second; }))
        return !known.empty();
    for (uint32_t queue = 0; queue < kQueues; ++queue) {
        uint64_t &serving = context.queue_serving[queue];
        for (; serving != context.queue_ticket[queue] && !lives(context.queue_owner[queue][serving % kQueueLength]);
             ++serving)
            --context.queue_load[queue];
    }
    wake_parked();
    return true;
}

void Card::end_context_of_dead_holder() {
    if (context().opener != 0 && !in_use())
        end_context();
}

void Card::mark_lost() {
    m_state->lost = true;
    context().dead = true;
    abort_submissions();
    raise(HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE);
    wake_all_waiters();
}

void Card::raise(uint64_t events) {
    Context &context = this->context();
    context.events |= events;
    if (context.notifier_pid == 0)
        return;
    const uint64_t one = 1;
    if (context.notifier_pid == getpid()) {
        (void)!write(context.notifier_fd, &one, sizeof one);
        return;
    }
    const File process(static_cast<int>(gaudi::os::system_call(SYS_pidfd_open, context.notifier_pid, 0)));
    if (!process)
        return;
    const File notifier(
        static_cast<int>(gaudi::os::system_call(SYS_pidfd_getfd, process.get(), context.notifier_fd, 0)));
    if (notifier)
        (void)!write(notifier.get(), &one, sizeof one);
}

int Card::create_notifier() {
    Context &context = this->context();
    if (context.notifier_pid != 0)
        return -EINVAL;
    File handle(eventfd(0, EFD_CLOEXEC));
    if (!handle)
        return -errno;
    // A private duplicate: the program may close its handle with close(2), and the number may be reused.
    const int copy = fcntl(handle.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return -errno;
    context.notifier_pid = getpid();
    context.notifier_fd = copy;
    return handle.release();
}

void Card::drop_notifier() {
    Context &context = this->context();
    if (context.notifier_pid == getpid())
        ::close(context.notifier_fd);
    context.notifier_pid = 0;
    context.notifier_fd = -1;
}

int Card::release_notifier(int handle) {
    if (context().notifier_pid == 0)
        return -EINVAL;
    drop_notifier();
    return ::close(handle) == 0 ? 0 : -errno;
}

} // namespace softgaudi
