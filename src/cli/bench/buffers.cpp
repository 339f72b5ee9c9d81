// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include "gaudi/memory/allocation.h"
#include "gaudi/memory/resolve.h"
#include "os/format.h"
#include "sizes.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace gaudi::cli::bench {

constexpr std::uint64_t kPage = 4096;

OrSentence<std::unique_ptr<HostBuffer>> HostBuffer::make(const Cards &cards, std::uint64_t length) {
    void *memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return Sentence(os::format("cannot allocate {} of host memory: {}", format_size(length), std::strerror(errno)));
    std::unique_ptr<HostBuffer> buffer(new HostBuffer(static_cast<std::byte *>(memory), length));
    buffer->m_range = std::make_unique<HostRange>(buffer->address(), length, cards.all().size());
    return buffer;
}

HostBuffer::~HostBuffer() {
    m_range.reset();
    ::munmap(m_data, m_length);
}

OrSentence<std::unique_ptr<DeviceBuffer>> DeviceBuffer::make(Cards &cards, Card &card, std::uint64_t length) {
    AllocationRequest request;
    request.length = length;
    request.alignment = kPage;
    const auto address = allocate(card, request);
    if (!address)
        return Sentence(address.error().text);
    return std::unique_ptr<DeviceBuffer>(new DeviceBuffer(cards, *address));
}

DeviceBuffer::~DeviceBuffer() {
    if (const Resolved memory = resolve(m_cards, m_address, 1))
        free_allocation(memory.region(), m_address);
}

OrSentence<DeviceBuffer::Export> DeviceBuffer::export_block() const {
    const Resolved memory = resolve(m_cards, m_address, 1);
    if (!memory)
        return Sentence(os::format("the card of the memory at {:#x} was closed", m_address));
    auto dmabuf = memory.region().dmabuf();
    if (!dmabuf)
        return Sentence(dmabuf.error().text);
    return Export{std::move(*dmabuf), memory.offset(m_address)};
}

} // namespace gaudi::cli::bench
