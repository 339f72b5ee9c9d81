// SPDX-License-Identifier: BSD-3-Clause
#include "bare.h"

#include "gaudi/copy/packets.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

namespace packet = gaudi::packet;
namespace thunk = gaudi::thunk;

constexpr std::size_t kFlagBytes = 4096; // the completion flag, then the command buffers
constexpr std::size_t kBuffers = 64;
constexpr std::size_t kBufferBytes = 2048;
constexpr std::uint32_t kQueue = 0; // host to card, on a Gaudi2

template <class T>
T need(thunk::Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().text);
    return std::move(*result);
}

/// The first card that is free.
thunk::DeviceFd open_any_card() {
    const thunk::Library &library = *need(thunk::Library::find());
    const int fd = library.call().open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    if (fd < 0)
        throw std::runtime_error("hlthunk_open opened no card");
    return thunk::DeviceFd(thunk::Device(library, fd));
}

} // namespace

Pages::Pages(std::size_t size)
    : m_size(size),
      m_data(static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (m_data == MAP_FAILED)
        throw std::bad_alloc();
    std::memset(m_data, 1, size); // faults in every page before the measurement
}

Pages::~Pages() { munmap(m_data, m_size); }

Bare::Bare(std::size_t size)
    : m_device(open_any_card()), m_bus_id(need(m_device->bus_id())), m_host(size),
      m_ring(kFlagBytes + kBuffers * kBufferBytes), m_allocation(need(thunk::allocate(m_device.get(), size))),
      m_card_map(need(thunk::map_device(m_allocation))),
      m_host_map(need(thunk::map_host(m_device.get(), m_host.data(), size))),
      m_ring_map(need(thunk::map_host(m_device.get(), m_ring.data(), m_ring.size()))) {
    completion_flag().store(0);
}

std::atomic<std::uint32_t> &Bare::completion_flag() const {
    return *reinterpret_cast<std::atomic<std::uint32_t> *>(m_ring.data());
}

void Bare::submit(std::size_t size, std::size_t stride, unsigned first, unsigned count) {
    const std::size_t offset = kFlagBytes + ++m_value % kBuffers * kBufferBytes;
    char *end = m_ring.data() + offset;
    for (unsigned i = first; i < first + count; ++i) {
        const packet::LinearDma copy{.size = static_cast<std::uint32_t>(size),
                                     .source = m_host_map.get() + i * stride,
                                     .destination = m_card_map.get() + i * stride};
        std::memcpy(end, &copy, sizeof copy);
        end += sizeof copy;
    }
    const packet::Message message{.value = m_value, .address = m_ring_map.get()};
    std::memcpy(end, &message, sizeof message);
    end += sizeof message;

    hl_cs_chunk chunk{};
    chunk.cb_handle = m_ring_map.get() + offset;
    chunk.queue_index = kQueue;
    chunk.cb_size = static_cast<std::uint32_t>(end - (m_ring.data() + offset));
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    need(m_device->submit(std::span(&chunk, 1)));
}

void Bare::put(std::size_t size, std::size_t stride, unsigned count, unsigned submissions) {
    // The first copy finds the queue idle and is submitted alone; the others share the remaining submissions.
    unsigned done = 0;
    for (unsigned left = submissions; left > 0; --left) {
        const unsigned part = left == submissions && left > 1 ? 1 : (count - done + left - 1) / left;
        submit(size, stride, done, part);
        done += part;
    }
    while (completion_flag().load(std::memory_order_acquire) != m_value) {
    }
}

} // namespace bench
