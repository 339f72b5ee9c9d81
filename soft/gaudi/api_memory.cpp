// SPDX-License-Identifier: BSD-3-Clause
// Exported functions: memory and command buffers.
#include "call.h"

#include <fcntl.h>

using namespace softgaudi;

namespace {

// Functions that return an address or a handle return 0 for every failure and set errno.
uint64_t fail_with_zero(int error) {
    errno = error < 0 ? -error : error;
    return 0;
}

void spend_map_time(Card &card) { card.clock().spend_host_time(card.config().pace.map_ns); }

uint64_t map_host(const Call &call, void *host, uint64_t hint, uint64_t size, uint32_t flags) {
    if (!call)
        return fail_with_zero(call.error());
    const auto pointer = reinterpret_cast<uint64_t>(host);
    const auto pin = call.card().pin_host(pointer, size);
    if (!pin)
        return fail_with_zero(pin.error());
    uint64_t address = 0;
    {
        const CardLock lock(call.card());
        if (const int error =
                call.card().map_host(pointer, size, *pin, hint, (flags & HL_MEM_FORCE_HINT) != 0, address)) {
            call.card().unpin_host(*pin, pointer, size);
            return fail_with_zero(error);
        }
    }
    spend_map_time(call.card());
    return address;
}

int create_buffer(const Call &call, uint32_t size, bool mapped, bool timestamps, uint64_t *handle) {
    if (!handle)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().create_buffer(size, mapped, timestamps, *handle));
}

} // namespace

SOFTGAUDI_API uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous,
                                                   bool /*shared*/) {
    const Call call("device_memory_alloc", fd, Needs::compute);
    if (!call)
        return fail_with_zero(call.error());
    const CardLock lock(call.card());
    uint64_t handle = 0;
    const int error = call.card().allocate(size, page_size, contiguous, handle);
    return error ? fail_with_zero(error) : handle;
}

SOFTGAUDI_API int hlthunk_device_memory_free(int fd, uint64_t handle) {
    const Call call("device_memory_free", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().free(handle));
}

SOFTGAUDI_API uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint_addr) {
    const Call call("device_memory_map", fd, Needs::compute);
    if (!call)
        return fail_with_zero(call.error());
    uint64_t address = 0;
    {
        const CardLock lock(call.card());
        if (const int error = call.card().map_device(handle, hint_addr, false, address))
            return fail_with_zero(error);
    }
    spend_map_time(call.card());
    return address;
}

SOFTGAUDI_API uint64_t hlthunk_host_memory_map(int fd, void *host_virt_addr, uint64_t hint_addr, uint64_t host_size) {
    return map_host(Call("host_memory_map", fd, Needs::compute), host_virt_addr, hint_addr, host_size, 0);
}

SOFTGAUDI_API uint64_t hlthunk_host_memory_map_flags(int fd, void *host_virt_addr, uint64_t hint_addr,
                                                     uint64_t host_size, uint32_t flags) {
    return map_host(Call("host_memory_map_flags", fd, Needs::compute), host_virt_addr, hint_addr, host_size, flags);
}

SOFTGAUDI_API int hlthunk_memory_unmap(int fd, uint64_t device_virt_addr) {
    const Call call("memory_unmap", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().unmap(device_virt_addr));
}

SOFTGAUDI_API int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint32_t /*flags*/) {
    const Call call("device_memory_export_dmabuf_fd", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().export_dmabuf(addr, size, 0));
}

SOFTGAUDI_API int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint64_t offset,
                                                                uint32_t flags) {
    const Call call("device_mapped_memory_export_dmabuf_fd", fd, Needs::compute);
    if (flags != (O_RDWR | O_CLOEXEC))
        return fail(EINVAL); // the library checks this before it calls the driver
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().export_dmabuf(addr, size, offset));
}

SOFTGAUDI_API int hlthunk_get_hw_block(int fd, uint64_t /*block_address*/, uint32_t *block_size, uint64_t *handle) {
    const Call call("get_hw_block", fd, Needs::compute);
    if (!block_size || !handle)
        return fail(EINVAL);
    return call ? not_modelled("get_hw_block", EINVAL) : fail(call.error());
}

SOFTGAUDI_API int hlthunk_allocate_timestamp_elements(int fd, uint32_t num_elements, uint64_t *handle) {
    const Call call("allocate_timestamp_elements", fd, Needs::compute);
    if (num_elements > 1u << 20)
        return fail(EINVAL);
    if (num_elements == 0)
        return fail(ENOMEM);
    return create_buffer(call, num_elements * static_cast<uint32_t>(sizeof(uint64_t)), false, true, handle);
}

SOFTGAUDI_API int hlthunk_request_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle) {
    return create_buffer(Call("request_command_buffer", fd, Needs::compute), cb_size, false, false, cb_handle);
}

SOFTGAUDI_API int hlthunk_request_mapped_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle) {
    return create_buffer(Call("request_mapped_command_buffer", fd, Needs::compute), cb_size, true, false, cb_handle);
}

SOFTGAUDI_API int hlthunk_get_mapped_cb_device_va_by_handle(int fd, uint64_t cb_handle, uint64_t *device_va) {
    const Call call("get_mapped_cb_device_va_by_handle", fd, Needs::compute);
    if (!device_va)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    const Buffer *buffer = call.card().find_buffer(cb_handle);
    if (!buffer || buffer->address == 0)
        return fail(EINVAL);
    *device_va = buffer->address;
    return 0;
}

SOFTGAUDI_API int hlthunk_get_cb_usage_count(int fd, uint64_t cb_handle, uint32_t *usage_cnt) {
    const Call call("get_cb_usage_count", fd, Needs::compute);
    if (!usage_cnt)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    if (!call.card().find_buffer(cb_handle))
        return fail(EINVAL);
    *usage_cnt = 0; // queues of this generation do not run driver-owned command buffers
    return 0;
}

SOFTGAUDI_API int hlthunk_destroy_command_buffer(int fd, uint64_t cb_handle) {
    const Call call("destroy_command_buffer", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const CardLock lock(call.card());
    return result(call.card().destroy_buffer(cb_handle));
}
