// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"

#include "buffers.h"
#include "thunk/current_exception.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#define GAUDI_BUFFER_EXPORT __attribute__((visibility("default")))

namespace gaudi::buffer {
namespace {

std::uint64_t number(const void *address) { return reinterpret_cast<std::uint64_t>(address); }

/// Copies as much of a text as fits; false where that is not all.
bool copy_text(const std::string &text, char *to, std::size_t size) {
    if (!to || size == 0)
        return false;
    const std::size_t length = std::min(text.size(), size - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
    return length == text.size();
}

/// Runs a step with the buffers of this process; nothing is thrown.
template <class Step>
int run(const char *name, char *problem, std::size_t problem_size, Step &&step) noexcept {
    Error error;
    try {
        const auto buffers = Buffers::get();
        const Result<void> ended = buffers ? step(**buffers) : tl::unexpected(buffers.error());
        if (ended)
            return 0;
        error = ended.error();
    } catch (...) {
        error = thunk::current_exception_error(name);
    }
    copy_text(error.text, problem, problem_size);
    return error.code;
}

} // namespace
} // namespace gaudi::buffer

using namespace gaudi;
using namespace gaudi::buffer;

GAUDI_BUFFER_EXPORT int gaudi_buffer_allocate(const char *device, uint64_t length, void **address, char *problem,
                                              size_t problem_size) {
    return run("gaudi_buffer_allocate", problem, problem_size, [&](Buffers &buffers) -> Result<void> {
        const auto allocated = buffers.allocate(device ? device : "auto", length);
        if (!allocated)
            return tl::unexpected(allocated.error());
        *address = reinterpret_cast<void *>(*allocated);
        return {};
    });
}

GAUDI_BUFFER_EXPORT int gaudi_buffer_free(void *address, char *problem, size_t problem_size) {
    return run("gaudi_buffer_free", problem, problem_size,
               [&](Buffers &buffers) { return buffers.free(number(address)); });
}

GAUDI_BUFFER_EXPORT int gaudi_buffer_write(void *address, const void *host, uint64_t length, char *problem,
                                           size_t problem_size) {
    return run("gaudi_buffer_write", problem, problem_size,
               [&](Buffers &buffers) { return buffers.write(number(address), number(host), length); });
}

GAUDI_BUFFER_EXPORT int gaudi_buffer_read(void *host, const void *address, uint64_t length, char *problem,
                                          size_t problem_size) {
    return run("gaudi_buffer_read", problem, problem_size,
               [&](Buffers &buffers) { return buffers.read(number(host), number(address), length); });
}

GAUDI_BUFFER_EXPORT int gaudi_buffer_fill(void *address, int byte, uint64_t length, char *problem,
                                          size_t problem_size) {
    return run("gaudi_buffer_fill", problem, problem_size, [&](Buffers &buffers) {
        return buffers.fill(number(address), static_cast<unsigned char>(byte), length);
    });
}

GAUDI_BUFFER_EXPORT int gaudi_buffer_card(const void *address, char *bus_id, size_t bus_id_size) {
    return run("gaudi_buffer_card", nullptr, 0, [&](Buffers &buffers) -> Result<void> {
        const auto found = buffers.bus_id(number(address));
        if (!found)
            return tl::unexpected(found.error());
        if (!copy_text(*found, bus_id, bus_id_size))
            return tl::unexpected(Error{ERANGE, "gaudi_buffer_card", ""});
        return {};
    });
}

GAUDI_BUFFER_EXPORT int gaudi_flush_rdma_writes(const void *address, char *problem, size_t problem_size) {
    return run("gaudi_flush_rdma_writes", problem, problem_size,
               [&](Buffers &buffers) { return buffers.flush_rdma_writes(number(address)); });
}
