// SPDX-License-Identifier: BSD-3-Clause
// User interrupts: waits for a counter in memory, and timestamps taken when a counter reaches its target.
#include "card.h"
#include "host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softgaudi {
namespace {

constexpr uint32_t kAnyInterrupt = 0xFFF;

bool valid_interrupt(const Model &model, uint32_t interrupt) {
    return interrupt == kAnyInterrupt ||
           (interrupt >= model.first_interrupt && interrupt < uint32_t{model.first_interrupt} + model.user_interrupts &&
            interrupt < kInterrupts);
}

} // namespace

void Card::fire_interrupt(uint32_t interrupt) {
    Context &context = this->context();
    for (TimestampRequest &request : context.timestamps) {
        if (!request.used || request.interrupt != interrupt)
            continue;
        uint64_t counter = 0;
        if (pread(m_node.get(), &counter, sizeof counter, static_cast<off_t>(request.counter)) != sizeof counter ||
            counter < request.target)
            continue;
        const uint64_t now = m_clock.now();
        (void)!pwrite(m_node.get(), &now, sizeof now, static_cast<off_t>(request.record));
        request.used = false;
    }
    if (interrupt < kInterrupts)
        context.interrupts[interrupt].signal();
    context.any_interrupt.signal();
}

int Card::register_timestamp(uint32_t interrupt, uint64_t counter, uint64_t target, uint64_t record) {
    Context &context = this->context();
    if (!valid_interrupt(model(), interrupt))
        return -EINVAL;
    uint64_t value = 0;
    const uint64_t now = m_clock.now();
    if (pread(m_node.get(), &value, sizeof value, static_cast<off_t>(counter)) == sizeof value && value >= target) {
        (void)!pwrite(m_node.get(), &now, sizeof now, static_cast<off_t>(record));
        return 0;
    }
    auto entry = std::find_if(context.timestamps.begin(), context.timestamps.end(), [&](const TimestampRequest &r) {
        return r.used && r.record == record; // a pending slot is armed again
    });
    if (entry == context.timestamps.end())
        entry = std::find_if(context.timestamps.begin(), context.timestamps.end(),
                             [](const TimestampRequest &r) { return !r.used; });
    if (entry == context.timestamps.end())
        return -ENOMEM;
    *entry = {true, interrupt, counter, target, record};
    return 0;
}

int Card::wait_interrupt(const void *pointer, std::optional<uint64_t> slot, uint64_t target, uint32_t interrupt,
                         uint64_t timeout_us, uint32_t &status, uint64_t *timestamp) {
    if (interrupt == UINT32_MAX)
        interrupt = kAnyInterrupt;
    if (!valid_interrupt(model(), interrupt))
        return -EINVAL;
    Context &context = this->context();
    Event &event = interrupt == kAnyInterrupt ? context.any_interrupt : context.interrupts[interrupt];
    const uint64_t now = m_clock.now();
    const uint64_t deadline = timeout_us > (kForever - now) / 1000 - 1 ? kForever : now + timeout_us * 1000;
    const uint64_t id = context.id.load();
    {
        const CardLock lock(*this);
        if (context.released_soon)
            return -EBUSY;
    }
    while (true) {
        const uint32_t seen = event.seen();
        {
            const CardLock lock(*this);
            if (m_state->lost)
                return -ENODEV;
            if (context.id.load() != id || refusal() != 0 || context.released_soon) {
                status = HL_WAIT_CS_STATUS_ABORTED;
                return slot ? -EIO : 0;
            }
        }
        uint64_t value = 0;
        if (slot) {
            if (pread(m_node.get(), &value, sizeof value, static_cast<off_t>(*slot)) != sizeof value)
                return -EINVAL;
        } else if (!read_process_memory(getpid(), reinterpret_cast<uint64_t>(pointer), &value, sizeof value)) {
            return -EFAULT;
        }
        if (value >= target) {
            status = HL_WAIT_CS_STATUS_COMPLETED;
            if (timestamp)
                *timestamp = m_clock.now();
            return 0;
        }
        if (m_clock.now() >= deadline) {
            status = HL_WAIT_CS_STATUS_BUSY;
            return 0;
        }
        if (!m_clock.is_virtual()) {
            event.wait(seen, deadline);
            continue;
        }
        const uint64_t at = m_clock.now(), until = monotonic_ns() + 10'000'000; // other threads may change the counter
        m_clock.wait_until(deadline,
                           [&] { return event.seen() != seen || m_clock.now() != at || monotonic_ns() >= until; });
    }
}

} // namespace softgaudi
