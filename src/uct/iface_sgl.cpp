// SPDX-License-Identifier: BSD-3-Clause
// Lists of copies (UCX's scatter-gather lists, "sgl"): one call and one completion for any number of elements.
#include "iface.h"

#include "gaudi/copy/copy_series.h"
#include "os/format.h"
#include "unpacked_key.h"

namespace gaudi::uct {

using namespace ucx;

namespace {

constexpr std::size_t kMaxElements = SIZE_MAX; // copies that the card has no room for wait in the engine

template <class Attributes>
void set_flags(Attributes &attr, std::uint64_t field, std::uint64_t flags) {
    if ((attr.field_mask & field) != 0)
        attr.cap.flags |= flags;
}

} // namespace

ucs_status_t Iface::query_v2(uct_iface_attr_v2 *attr) {
    const Functions &call = m_host.call();
    const ucs_status_t status = call.uct_iface_base_query_v2(&super, attr); // clears the fields that are asked for
    if (status != UCS_OK || !m_offers_copies || call.uct_ep_put_sgl_zcopy == nullptr)
        return status;
    if ((attr->field_mask & UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT) != 0)
        attr->max_put_sgl_zcopy_count = kMaxElements;
    if (call.uct_ep_get_sgl_zcopy == nullptr) {
        set_flags(*attr, UCT_IFACE_ATTR_FIELD_CAP_FLAGS, UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY);
        return UCS_OK;
    }
    auto &later = *reinterpret_cast<v1_23::uct_iface_attr_v2 *>(attr);
    if ((later.field_mask & v1_23::UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT) != 0)
        later.max_get_sgl_zcopy_count = kMaxElements;
    set_flags(later, v1_23::UCT_IFACE_ATTR_FIELD_CAP_FLAGS,
              v1_23::UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY | v1_23::UCT_IFACE_FLAG_V2_GET_SGL_ZCOPY);
    return UCS_OK;
}

ucs_status_t Iface::check_element(const CopyList &list, std::size_t element) {
    const std::size_t blocks = list.blocks(element);
    std::size_t reach = list.lengths[element]; // from the start of the first block to the end of the last
    if (blocks == 0 || reach == 0)
        return UCS_OK;
    if (blocks > 1) {
        if (!list.strides)
            return refuse(UCS_ERR_INVALID_PARAM,
                          os::format("element {} of a list has {} blocks and no stride", element, blocks));
        std::size_t last = 0; // where the last block begins
        if (__builtin_mul_overflow(list.strides[element], blocks - 1, &last) ||
            __builtin_add_overflow(last, reach, &reach))
            return refuse(UCS_ERR_INVALID_PARAM,
                          os::format("element {} of a list, {} blocks at distances of {} bytes, does not fit into the "
                                     "address space",
                                     element, blocks, list.strides[element]));
    }
    if (!UnpackedKey::allows(list.rkeys[element], list.remote_addresses[element], reach))
        return refuse_key(list.rkeys[element], list.remote_addresses[element], reach);
    const MemoryHandle *handle = MemoryHandle::from(list.memhs[element]);
    if (handle && handle->kind == MemoryHandle::Kind::nothing)
        return refuse_unreachable(list.buffers[element]);
    return UCS_OK;
}

ucs_status_t Iface::copy_list(const CopyList &list, bool put, uct_completion *comp) {
    for (std::size_t i = 0; i < list.count; ++i)
        if (const ucs_status_t status = check_element(list, i); status != UCS_OK)
            return status;
    Operation *operation = take_operation(comp);
    start_list(*operation, list, put);
    return finish_call(*operation);
}

/// Neighbours that touch at both ends are one copy, if one handle and one key name them: then one mapping holds both.
void Iface::start_list(Operation &operation, CopyList list, bool put) {
    CopySeries series(m_mover, ended, &operation);
    Mover::Operation copy{.done = ended, .user = &operation};
    const auto send = [&] {
        if (series.add(copy.destination, copy.source, copy.length, copy.range)) [[likely]] {
            ++operation.copies;
            return true;
        }
        if (!m_held.empty()) // all copies of the list wait behind a fence
            return start(operation, copy);
        return note_posted(operation, series.add_elsewhere(copy.destination, copy.source, copy.length, copy.range));
    };
    uct_mem_h memh = nullptr;
    uct_rkey_t rkey = 0;
    bool merges = false;
    for (std::size_t i = 0; i < list.count; ++i) {
        const std::size_t length = list.lengths[i];
        const std::size_t blocks = length != 0 ? list.blocks(i) : 0;
        const std::size_t stride = list.stride(i);
        for (std::size_t block = 0; block < blocks; ++block) {
            const std::uint64_t local = reinterpret_cast<std::uint64_t>(list.buffers[i]) + block * stride;
            const std::uint64_t remote = list.remote_addresses[i] + block * stride;
            const std::uint64_t source = put ? local : remote, destination = put ? remote : local;
            if (merges && source == copy.source + copy.length && destination == copy.destination + copy.length &&
                list.memhs[i] == memh && list.rkeys[i] == rkey) {
                copy.length += length;
                continue;
            }
            if (copy.length != 0 && !send())
                return; // the rest is not started
            memh = list.memhs[i];
            rkey = list.rkeys[i];
            MemoryHandle *handle = MemoryHandle::from(memh);
            merges = handle && !UnpackedKey::is_none(rkey);
            copy.source = source;
            copy.destination = destination;
            copy.length = length;
            copy.range = handle ? handle->range.get() : nullptr;
        }
    }
    if (copy.length != 0)
        send();
}

ucs_status_t Ep::put_sgl_zcopy(void *const *buffers, const std::size_t *lengths, const uct_mem_h *memhs,
                               const std::uint64_t *remote_addresses, const uct_rkey_t *rkeys,
                               const std::size_t *counts, const std::size_t *strides, std::size_t count,
                               uct_completion *comp) {
    return interface().copy_list({buffers, lengths, memhs, remote_addresses, rkeys, counts, strides, count}, true,
                                 comp);
}

ucs_status_t Ep::get_sgl_zcopy(void *const *buffers, const std::size_t *lengths, const uct_mem_h *memhs,
                               const std::uint64_t *remote_addresses, const uct_rkey_t *rkeys,
                               const std::size_t *counts, const std::size_t *strides, std::size_t count,
                               uct_completion *comp) {
    return interface().copy_list({buffers, lengths, memhs, remote_addresses, rkeys, counts, strides, count}, false,
                                 comp);
}

} // namespace gaudi::uct
