// SPDX-License-Identifier: BSD-3-Clause
#include "run_job.h"

#include "card_bus.h"
#include "overtaking_bus.h"

namespace softgaudi {
namespace {

/// Waits until `ready` or until the job is no longer wanted; false in that case. The lock is held around `ready`. The
/// compiler does not know that `lock` holds `card`.
template <class Ready>
bool park_until(Card &card, CardLock &lock, const Job &job, Ready ready)
    GAUDI_REQUIRES(card) GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    while (card.running(job)) {
        if (ready())
            return true;
        const uint64_t deadline = card.expire();
        const uint32_t seen = card.context().parked.seen();
        if (!card.running(job))
            break;
        const uint32_t generation = card.clock().park(card.index());
        lock.unlock();
        card.context().parked.wait(seen, deadline);
        card.clock().resume(card.index(), generation);
        lock.lock();
    }
    return false;
}

DeviceError error_from(const Trap &trap, uint32_t queue) {
    switch (trap.kind) {
    case Trap::Kind::undefined_opcode:
        return {DeviceError::Kind::undefined_opcode, trap.address, trap.write, queue};
    case Trap::Kind::illegal_register:
        return {DeviceError::Kind::illegal_register, trap.address, trap.write, queue};
    default:
        return {DeviceError::Kind::page_fault, trap.address, trap.write, queue};
    }
}

} // namespace

/// Runs the job's packets. False where an error stops the queue until the card is closed or reset; else it goes on with the
/// next job, whatever came of this one.
static bool run_packets(Card &card, const Job &job) {
    {
        CardLock lock(card);
        Context &context = card.context();
        // The queue may also be fed by another process that shares the card.
        if (!park_until(card, lock, job, [&] { return context.queue_serving.at(job.queue) == job.ticket; }))
            return true;
        if (context.slots.at(job.seq % kWindow).hung && !park_until(card, lock, job, [] { return false; }))
            return true;
        if (job.kind == Job::Kind::wait) {
            const Slot &signal = context.slots.at(job.awaited % kWindow);
            const auto arrived = [&] {
                return signal.seq.load() != job.awaited || signal.status.load() != SlotStatus::running;
            };
            if (!park_until(card, lock, job, arrived))
                return true;
        }
    }
    CardBus bus(card, job);
    bus.begin();
    if (job.kind == Job::Kind::commands) {
        const Quirks &quirks = card.config().quirks;
        OvertakingBus overtaking(bus, card);
        Interpreter interpreter(quirks.early_flag ? static_cast<Bus &>(overtaking) : bus, quirks.nested);
        MaybeTrap trap = interpreter.run(job.address, job.size);
        if (!trap)
            trap = overtaking.release();
        card.state().traffic.packets.fetch_add(bus.packets(), std::memory_order_relaxed);
        if (trap) {
            const CardLock lock(card);
            if (trap->kind != Trap::Kind::cancelled && card.running(job))
                card.device_error(error_from(*trap, job.queue), job);
            return !card.running(job);
        }
    }
    bus.catch_up();
    return true;
}

void run_job(Card &card, const Job &job) {
    if (run_packets(card, job))
        card.finish(job);
}

} // namespace softgaudi
