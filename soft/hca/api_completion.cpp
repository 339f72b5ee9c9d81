// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and completion queues.
#include "api.h"
#include "completion_queue.h"
#include "events.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <memory>

using namespace softhca;

SOFTHCA_API ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    return make_object<ibv_comp_channel>([&](ibv_comp_channel *&out) {
        Hca *hca = hca_of(context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("create_comp_channel", Context::of(context).device).error)
            return error;
        auto channel = std::make_unique<Channel>();
        Fabric &fabric = hca->fabric();
        channel->entry = fabric.take(hca->state().channels, [&](ChannelEntry &, uint32_t id) {
            channel->id = id;
            channel->verbs.fd = make_fifo(fabric.channel_fifo(id));
            return channel->verbs.fd < 0 ? errno : 0;
        });
        if (!channel->entry)
            return errno;
        channel->verbs.context = context;
        out = &channel.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_destroy_comp_channel(ibv_comp_channel *verbs) {
    return guarded([&] {
        if (verbs->refcnt != 0)
            return EBUSY;
        Channel &channel = Channel::of(verbs);
        close(verbs->fd);
        if (Hca *hca = hca_of(verbs->context))
            hca->fabric().destroy(*channel.entry);
        delete &channel;
        return 0;
    });
}

SOFTHCA_API ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *channel,
                                  int vector) {
    return make_object<ibv_cq>([&](ibv_cq *&out) {
        Hca *hca = hca_of(context);
        if (!hca)
            return ENODEV;
        if (const int error = hca->match_faults("create_cq", Context::of(context).device).error)
            return error;
        if (cqe <= 0 || static_cast<uint32_t>(cqe) > kMaxQueue || vector < 0 || vector >= context->num_comp_vectors)
            return EINVAL;
        auto cq = std::make_unique<Cq>();
        const uint32_t capacity = std::bit_ceil(static_cast<uint32_t>(cqe));
        Fabric &fabric = hca->fabric();
        cq->entry = fabric.take(hca->state().cqs, [&](CqEntry &fresh, uint32_t id) {
            fabric.tables().assert_held();
            if (!fabric.allocate(capacity * sizeof(Completion), fresh.extent))
                return ENOMEM;
            cq->id = id;
            fresh.context = Context::of(context).id;
            fresh.channel = channel ? Channel::of(channel).id : 0;
            fresh.capacity = capacity;
            fresh.head.store(0);
            fresh.tail.store(0);
            fresh.armed.store(Armed::no);
            fresh.overrun = false;
            return 0;
        });
        if (!cq->entry)
            return errno;
        cq->verbs.context = context;
        cq->verbs.channel = channel;
        cq->verbs.cq_context = cq_context;
        cq->verbs.handle = cq->id;
        cq->verbs.cqe = static_cast<int>(capacity);
        if (channel)
            ++channel->refcnt;
        hca->add(*cq);
        out = &cq.release()->verbs;
        return 0;
    });
}

SOFTHCA_API int ibv_resize_cq(ibv_cq *, int) { return EOPNOTSUPP; }

SOFTHCA_API int ibv_destroy_cq(ibv_cq *verbs) {
    return guarded([&] {
        Cq &cq = Cq::of(verbs);
        if (cq.users.load() != 0)
            return EBUSY;
        if (Hca *hca = hca_of(verbs->context)) {
            hca->remove(cq);
            cq.completion_events.wait();
            cq.async_events.wait();
            hca->fabric().destroy(*cq.entry);
        }
        if (verbs->channel)
            --verbs->channel->refcnt;
        delete &cq;
        return 0;
    });
}

SOFTHCA_API int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **out, void **cq_context) {
    Hca *hca = hca_of(channel->context);
    if (!hca) {
        errno = ENODEV;
        return -1;
    }
    for (uint32_t id = 0;;) {
        if (read(channel->fd, &id, sizeof id) != sizeof id)
            return -1;
        if (Cq *cq = hca->deliver(id, &Cq::completion_events)) {
            *out = &cq->verbs;
            *cq_context = cq->verbs.cq_context;
            return 0;
        }
    }
}

SOFTHCA_API void ibv_ack_cq_events(ibv_cq *cq, unsigned count) {
    if (count != 0)
        Cq::of(cq).completion_events.acknowledged(count);
}

int softhca::poll_cq(ibv_cq *verbs, int count, ibv_wc *wc) {
    constexpr int kAtOnce = 16;
    Hca *hca = hca_of(verbs->context);
    if (!hca || count < 0)
        return -1;
    Cq &cq = Cq::of(verbs);
    int done = 0;
    if (is_empty(*cq.entry))
        hca->engine().run_one_request();
    std::array<Completion, kAtOnce> taken;
    while (done < count) {
        const int got = poll(hca->fabric(), *cq.entry, std::min(count - done, kAtOnce), taken.data());
        if (got == 0)
            break;
        for (int i = 0; i < got; ++i) {
            const Completion &from = taken[static_cast<size_t>(i)];
            ibv_wc &to = wc[done++];
            to = {};
            to.wr_id = from.wr_id;
            to.status = static_cast<ibv_wc_status>(from.status);
            to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
            to.vendor_err = from.vendor_err;
            to.byte_len = from.byte_len;
            to.imm_data = from.imm_data;
            to.qp_num = from.qp_num;
            to.src_qp = from.src_qp;
            to.wc_flags = from.wc_flags;
            to.slid = from.slid;
            to.sl = from.sl;
        }
    }
    return done;
}

int softhca::req_notify_cq(ibv_cq *verbs, int solicited_only) {
    if (!hca_of(verbs->context))
        return ENODEV;
    arm(*Cq::of(verbs).entry, solicited_only != 0);
    return 0;
}
