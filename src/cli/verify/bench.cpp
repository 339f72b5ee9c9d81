// SPDX-License-Identifier: BSD-3-Clause
#include "bench.h"

#include "gaudi/copy/queues.h"
#include "os/format.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace gaudi::cli::verify {
namespace {

constexpr std::size_t kSlotBytes = 128; // two packets, then the completion flag in a cache line of its own
constexpr std::size_t kFlagOffset = 64;
constexpr auto kMostWait = std::chrono::seconds(10);

bool s_abandoned = false;

std::uint32_t pattern(std::size_t index, std::uint32_t seed) {
    return (static_cast<std::uint32_t>(index) + 1) * 2654435761u ^ seed;
}

} // namespace

bool is_abandoned() { return s_abandoned; }
void abandon() { s_abandoned = true; }

Result<std::unique_ptr<HostBlock>> HostBlock::make(const thunk::Device &device, std::size_t length) {
    constexpr std::size_t kPage = 4096;
    length = (length + kPage - 1) / kPage * kPage; // whether other lengths can be mapped is for the step host to find
    void *memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tl::unexpected(thunk::make_error(errno, "mmap", os::format("{} bytes", length)));
    std::unique_ptr<HostBlock> block(new HostBlock(static_cast<std::byte *>(memory), length));
    auto mapping = thunk::map_host(device, memory, length);
    if (!mapping)
        return tl::unexpected(mapping.error());
    block->m_mapping = std::move(*mapping);
    return block;
}

HostBlock::~HostBlock() {
    if (is_abandoned()) {
        m_mapping.detach();
        return;
    }
    if (m_mapping.release())
        ::munmap(m_data, m_size);
}

void fill(std::byte *data, std::size_t length, std::uint32_t seed) {
    for (std::size_t at = 0; at < length; at += 4) {
        const std::uint32_t word = pattern(at / 4, seed);
        std::memcpy(data + at, &word, std::min<std::size_t>(4, length - at));
    }
}

bool is_filled(const std::byte *data, std::size_t length, std::uint32_t seed) {
    for (std::size_t at = 0; at < length; at += 4) {
        const std::uint32_t word = pattern(at / 4, seed);
        if (std::memcmp(data + at, &word, std::min<std::size_t>(4, length - at)) != 0)
            return false;
    }
    return true;
}

std::uint32_t fresh_seed() {
    static auto seed = static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    return seed += 0x9E3779B9u;
}

Result<DeviceBlock> DeviceBlock::make(const thunk::Device &device, std::uint64_t length, std::uint64_t hint) {
    DeviceBlock block;
    auto allocation = thunk::allocate(device, length);
    if (!allocation)
        return tl::unexpected(allocation.error());
    auto mapping = thunk::map_device(*allocation, hint);
    if (!mapping)
        return tl::unexpected(mapping.error());
    block.allocation = std::move(*allocation);
    block.mapping = std::move(*mapping);
    return block;
}

DeviceBlock::~DeviceBlock() {
    if (is_abandoned()) {
        mapping.detach();
        allocation.detach();
        return;
    }
    thunk::release_or_report([this] { return mapping.release(); }); // before the allocation
}

Result<thunk::Fd> export_from(const thunk::Device &device, std::uint64_t address, std::uint64_t size,
                              std::uint64_t offset) {
    const int fd = device.library().call().device_mapped_memory_export_dmabuf_fd(device.fd(), address, size, offset,
                                                                                 O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return tl::unexpected(thunk::from_negative(fd, "hlthunk_device_mapped_memory_export_dmabuf_fd"));
    return thunk::Fd(fd);
}

Result<std::unique_ptr<TestRing>> TestRing::make(const Target &target, unsigned slots) {
    auto block = HostBlock::make(target.device, slots * kSlotBytes);
    if (!block)
        return tl::unexpected(block.error());
    return std::unique_ptr<TestRing>(new TestRing(target, std::move(*block)));
}

Result<std::uint64_t> TestRing::submit(unsigned slot, std::uint32_t queue, const Copy &copy, std::uint32_t flag) {
    std::byte *place = m_block->data() + slot * kSlotBytes;
    const std::uint64_t address = m_block->address() + slot * kSlotBytes;
    packet::LinearDma dma{};
    dma.size = copy.length;
    dma.source = copy.source;
    dma.destination = copy.destination;
    packet::Message message{};
    message.value = flag;
    message.address = address + kFlagOffset;
    std::memcpy(place, &dma, sizeof dma);
    std::memcpy(place + sizeof dma, &message, sizeof message);
    hl_cs_chunk chunk{};
    chunk.cb_handle = address;
    chunk.queue_index = queue;
    chunk.cb_size = sizeof dma + sizeof message;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    // A test that hangs must not reset a card that SynapseAI uses.
    return m_target.device.submit({&chunk, 1}, m_target.shared ? std::uint32_t{HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT} : 0u);
}

std::uint32_t TestRing::flag(unsigned slot) const {
    auto *word = reinterpret_cast<std::uint32_t *>(m_block->data() + slot * kSlotBytes + kFlagOffset);
    return std::atomic_ref(*word).load(std::memory_order_acquire);
}

Result<void> TestRing::wait(std::uint64_t sequence) {
    const auto limit = std::chrono::steady_clock::now() + kMostWait;
    for (;;) {
        const auto waited = m_target.device.wait(sequence, std::chrono::milliseconds(100));
        if (!waited) {
            abandon();
            return tl::unexpected(waited.error());
        }
        if (*waited == thunk::Wait::done)
            return {};
        if (std::chrono::steady_clock::now() > limit) {
            abandon();
            return tl::unexpected(thunk::make_error(ETIMEDOUT, "hlthunk_wait_for_cs", std::to_string(sequence),
                                                    "the submission did not end in 10 s"));
        }
    }
}

Result<void> TestRing::copy(std::uint32_t queue, std::uint64_t source, std::uint64_t destination,
                            std::uint32_t length) {
    const auto sequence = submit(0, queue, {source, destination, length}, fresh_seed());
    if (!sequence)
        return tl::unexpected(sequence.error());
    return wait(*sequence);
}

std::vector<std::uint32_t> card_queues(const CardIdentity &card) {
    std::vector<std::uint32_t> queues;
    for (unsigned i = 0; i < kCardQueues.size(); ++i)
        if ((card.info().edma_enabled_mask >> i & 1) != 0)
            queues.push_back(kCardQueues[i]);
    if (!queues.empty())
        queues.push_back(queues.front() + 1); // of small copies
    return queues;
}

} // namespace gaudi::cli::verify
