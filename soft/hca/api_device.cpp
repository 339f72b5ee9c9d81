// SPDX-License-Identifier: BSD-3-Clause
// Devices and their attributes.
#include "api.h"
#include "events.h"

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace softhca;

namespace {

constexpr uint8_t kPort = 1;
constexpr uint16_t kPkey = 0xffff;

Device &device_of(ibv_device *device) { return *reinterpret_cast<Device *>(device); }

int fill_port(ibv_context *context, uint8_t port, ibv_port_attr &attr) {
    Hca *hca = hca_of(context);
    if (!hca)
        return ENODEV;
    const unsigned device = Context::of(context).device;
    if (const int error = hca->match_faults("query_port", device).error)
        return error;
    if (port != kPort)
        return EINVAL;
    const bool down = hca->state().devices[device].down.load() != 0;
    attr = {};
    attr.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = IBV_MTU_4096;
    attr.gid_tbl_len = 1;
    attr.port_cap_flags = IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_EXTENDED_SPEEDS_SUP;
    attr.max_msg_sz = kMaxMessage;
    attr.pkey_tbl_len = 1;
    attr.lid = lid_of(device);
    attr.sm_lid = 1;
    attr.max_vl_num = 1;
    attr.subnet_timeout = 18;
    attr.active_width = 2;  // 4x
    attr.active_speed = 64; // HDR: 200 Gb/s
    attr.phys_state = down ? 2 : 5;
    attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

int query_port_extended(ibv_context *context, uint8_t port, ibv_port_attr *attr, size_t length) {
    ibv_port_attr full;
    const int error = fill_port(context, port, full);
    if (error == 0)
        std::memcpy(attr, &full, std::min(length, sizeof full));
    return error;
}

void fill_operations(Context &context) {
    context.verbs.sz = sizeof(verbs_context);
    context.verbs.query_port = query_port_extended;
    ibv_context &verbs = context.verbs.context;
    verbs.abi_compat = __VERBS_ABI_IS_EXTENDED;
    verbs.cmd_fd = -1;
    verbs.num_comp_vectors = 1;
    verbs.ops.poll_cq = poll_cq;
    verbs.ops.req_notify_cq = req_notify_cq;
    verbs.ops.post_send = post_send;
    verbs.ops.post_recv = post_recv;
    verbs.ops.post_srq_recv = post_srq_recv;
    pthread_mutex_init(&verbs.mutex, nullptr);
}

} // namespace

SOFTHCA_API ibv_device **ibv_get_device_list(int *count) {
    if (count)
        *count = 0;
    ibv_device **list = nullptr;
    const int error = guarded([&] {
        Hca *hca = Hca::get();
        const unsigned devices = hca ? hca->config().devices : 0;
        list = static_cast<ibv_device **>(std::calloc(devices + 1, sizeof *list));
        if (!list)
            return ENOMEM;
        for (unsigned i = 0; i < devices; ++i)
            list[i] = &hca->device(i).verbs;
        if (count)
            *count = static_cast<int>(devices);
        return 0;
    });
    if (error != 0)
        errno = error;
    return list;
}

SOFTHCA_API void ibv_free_device_list(ibv_device **list) { std::free(list); }

SOFTHCA_API const char *ibv_get_device_name(ibv_device *device) { return device->name; }

SOFTHCA_API int ibv_get_device_index(ibv_device *) {
    return -1; // no kernel device
}

SOFTHCA_API __be64 ibv_get_device_guid(ibv_device *device) { return htobe64(guid(device_of(device).index)); }

SOFTHCA_API ibv_context *ibv_open_device(ibv_device *device) {
    return make_object<ibv_context>([&](ibv_context *&out) {
        Hca *hca = Hca::get();
        if (!hca)
            return ENODEV;
        const unsigned index = device_of(device).index;
        if (const int error = hca->match_faults("open_device", index).error)
            return error;
        auto context = std::make_unique<Context>();
        Fabric &fabric = hca->fabric();
        int fd = -1;
        const ContextEntry *entry = fabric.take(hca->state().contexts, [&](ContextEntry &fresh, uint32_t id) {
            fresh.device = index;
            context->id = id;
            fd = make_fifo(fabric.context_fifo(id));
            return fd < 0 ? errno : 0;
        });
        if (!entry)
            return errno;
        fill_operations(*context);
        context->hca = hca;
        context->device = index;
        context->verbs.context.device = device;
        context->verbs.context.async_fd = fd;
        out = &context.release()->verbs.context;
        return 0;
    });
}

SOFTHCA_API int ibv_close_device(ibv_context *verbs) {
    return guarded([&] {
        Context &context = Context::of(verbs);
        close(verbs->async_fd);
        if (Hca *hca = hca_of(verbs)) {
            if (ContextEntry *entry = hca->state().contexts.find(context.id))
                hca->fabric().destroy(*entry);
        }
        delete &context;
        return 0;
    });
}

SOFTHCA_API int ibv_query_device(ibv_context *context, ibv_device_attr *attr) {
    Hca *hca = hca_of(context);
    if (!hca)
        return ENODEV;
    const unsigned device = Context::of(context).device;
    if (const int error = hca->match_faults("query_device", device).error)
        return error;
    const auto entries = [](const auto &table) { return static_cast<int>(table.entries.size()); };
    const State &state = hca->state();
    *attr = {};
    std::strcpy(attr->fw_ver, "softhca");
    attr->node_guid = htobe64(guid(device));
    attr->sys_image_guid = attr->node_guid;
    attr->max_mr_size = UINT64_MAX;
    attr->page_size_cap = 4096;
    attr->vendor_part_id = 1;
    attr->max_qp = entries(state.qps);
    attr->max_qp_wr = kMaxQueue;
    attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_PORT_ACTIVE_EVENT;
    attr->max_sge = kMaxSge;
    attr->max_sge_rd = kMaxSge;
    attr->max_cq = entries(state.cqs);
    attr->max_cqe = kMaxQueue;
    attr->max_mr = entries(state.mrs);
    attr->max_pd = 1 << 20;
    attr->max_qp_rd_atom = 16;
    attr->max_res_rd_atom = 16 * entries(state.qps);
    attr->max_qp_init_rd_atom = 16;
    attr->atomic_cap = IBV_ATOMIC_HCA;
    attr->max_ah = 1 << 20;
    attr->max_srq = entries(state.srqs);
    attr->max_srq_wr = kMaxQueue;
    attr->max_srq_sge = kMaxSge;
    attr->max_pkeys = 1;
    attr->local_ca_ack_delay = 15;
    attr->phys_port_cnt = 1;
    return 0;
}

SOFTHCA_API int ibv_query_port(ibv_context *context, uint8_t port, _compat_ibv_port_attr *attr) {
    // Old programs know the structure only up to here.
    return query_port_extended(context, port, reinterpret_cast<ibv_port_attr *>(attr),
                               offsetof(ibv_port_attr, port_cap_flags2));
}

SOFTHCA_API int ibv_query_gid(ibv_context *context, uint8_t port, int index, ibv_gid *gid) {
    if (port != kPort || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *gid = gid_of(Context::of(context).device);
    return 0;
}

SOFTHCA_API int _ibv_query_gid_ex(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *entry,
                                  uint32_t flags, size_t size) {
    if (port != kPort || index != 0 || flags != 0 || size < sizeof *entry)
        return EINVAL;
    *entry = {};
    entry->gid = gid_of(Context::of(context).device);
    entry->port_num = kPort;
    entry->gid_type = IBV_GID_TYPE_IB;
    return 0;
}

SOFTHCA_API ssize_t _ibv_query_gid_table(ibv_context *context, ibv_gid_entry *entries, size_t count, uint32_t flags,
                                         size_t size) {
    if (count == 0)
        return -EINVAL;
    const int error = _ibv_query_gid_ex(context, kPort, 0, entries, flags, size);
    return error == 0 ? 1 : -error;
}

SOFTHCA_API int ibv_query_gid_type(ibv_context *, uint8_t port, unsigned index, unsigned *type) {
    if (port != kPort || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *type = 0; // InfiniBand
    return 0;
}

SOFTHCA_API int ibv_query_pkey(ibv_context *, uint8_t port, int index, __be16 *pkey) {
    if (port != kPort || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(kPkey);
    return 0;
}

SOFTHCA_API int ibv_get_pkey_index(ibv_context *, uint8_t port, __be16 pkey) {
    if (port == kPort && pkey == htobe16(kPkey))
        return 0;
    errno = EINVAL;
    return -1;
}

SOFTHCA_API int ibv_get_async_event(ibv_context *context, ibv_async_event *event) {
    return guarded([&] {
        Hca *hca = hca_of(context);
        if (!hca) {
            errno = ENODEV;
            return -1;
        }
        // Events of destroyed objects are dropped.
        for (AsyncRecord record{};;) {
            const ssize_t got = read(context->async_fd, &record, sizeof record);
            if (got != sizeof record)
                return -1;
            *event = {};
            event->event_type = static_cast<ibv_event_type>(record.type);
            switch (event->event_type) {
            case IBV_EVENT_CQ_ERR:
                if (Cq *cq = hca->deliver(record.element, &Cq::async_events)) {
                    event->element.cq = &cq->verbs;
                    return 0;
                }
                break;
            case IBV_EVENT_SRQ_ERR:
            case IBV_EVENT_SRQ_LIMIT_REACHED:
                if (Srq *srq = hca->deliver(record.element, &Srq::async_events)) {
                    event->element.srq = &srq->verbs;
                    return 0;
                }
                break;
            case IBV_EVENT_PORT_ACTIVE:
            case IBV_EVENT_PORT_ERR:
            case IBV_EVENT_DEVICE_FATAL:
                event->element.port_num = static_cast<int>(record.element);
                return 0;
            default:
                if (Qp *qp = hca->deliver(record.element, &Qp::async_events)) {
                    event->element.qp = &qp->verbs;
                    return 0;
                }
            }
        }
    });
}

SOFTHCA_API void ibv_ack_async_event(ibv_async_event *event) {
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        Cq::of(event->element.cq).async_events.acknowledged(1);
        return;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        Srq::of(event->element.srq).async_events.acknowledged(1);
        return;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        return;
    default:
        Qp::of(event->element.qp).async_events.acknowledged(1);
    }
}
