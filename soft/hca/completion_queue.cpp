// SPDX-License-Identifier: BSD-3-Clause
#include "completion_queue.h"

#include "events.h"

#include <infiniband/verbs.h>

namespace softhca {
namespace {

Completion *ring(Fabric &fabric, const CqEntry &queue) {
    return reinterpret_cast<Completion *>(fabric.memory(queue.extent));
}

} // namespace

void push_completion(Fabric &fabric, uint32_t id, const Completion &completion) {
    CqEntry *queue = fabric.state().cqs.find(id);
    if (!queue)
        return;
    bool overrun = false, notify = false;
    uint32_t channel = 0, context = 0;
    {
        const Lock lock(queue->mutex);
        if (queue->id.load() != id)
            return;
        const uint32_t tail = queue->tail.load(std::memory_order_relaxed);
        channel = queue->channel;
        context = queue->context;
        if (tail - queue->head.load(std::memory_order_relaxed) == queue->capacity) {
            overrun = !queue->overrun;
            queue->overrun = true;
        } else {
            ring(fabric, *queue)[tail % queue->capacity] = completion;
            queue->tail.store(tail + 1, std::memory_order_release);
            const Armed armed = queue->armed.load();
            notify = armed == Armed::any ||
                     (armed == Armed::solicited && (completion.solicited != 0 || completion.status != IBV_WC_SUCCESS));
            if (notify)
                queue->armed.store(Armed::no);
        }
    }
    if (notify)
        notify_channel(fabric, channel, id);
    if (overrun)
        raise_event(fabric, context, {IBV_EVENT_CQ_ERR, id});
}

int poll(Fabric &fabric, CqEntry &queue, int count, Completion *out) {
    // Empty is the common case for a polling program; no lock.
    if (is_empty(queue))
        return 0;
    const Lock lock(queue.mutex);
    const uint32_t tail = queue.tail.load(std::memory_order_relaxed);
    uint32_t head = queue.head.load(std::memory_order_relaxed);
    int taken = 0;
    for (; taken < count && head != tail; ++taken, ++head)
        out[taken] = ring(fabric, queue)[head % queue.capacity];
    queue.head.store(head, std::memory_order_relaxed);
    return taken;
}

void arm(CqEntry &queue, bool solicited_only) {
    const Lock lock(queue.mutex);
    if (!solicited_only)
        queue.armed.store(Armed::any);
    else if (queue.armed.load() == Armed::no)
        queue.armed.store(Armed::solicited);
}

void drop_completions(Fabric &fabric, uint32_t id, uint32_t qp_num) {
    CqEntry *queue = fabric.state().cqs.find(id);
    if (!queue)
        return;
    const Lock lock(queue->mutex);
    if (queue->id.load() != id)
        return;
    Completion *entries = ring(fabric, *queue);
    const uint32_t head = queue->head.load(), tail = queue->tail.load();
    uint32_t kept = head;
    for (uint32_t at = head; at != tail; ++at) {
        if (entries[at % queue->capacity].qp_num != qp_num)
            entries[kept++ % queue->capacity] = entries[at % queue->capacity];
    }
    queue->tail.store(kept, std::memory_order_release);
}

} // namespace softhca
