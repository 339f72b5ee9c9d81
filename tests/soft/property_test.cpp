// SPDX-License-Identifier: BSD-3-Clause
// Long random sequences of correct and wrong calls match the reference at every step. SOFTGAUDI_TEST_SEED repeats one.
#include "reference.h"

#include <bit>
#include <random>

using namespace soft;

namespace {

constexpr uint64_t kHostBytes = 64 * 4096;
constexpr uint64_t kHostPage = 4096;
constexpr int kSteps = 4000;

class Walk {
public:
    explicit Walk(uint32_t seed) : m_random(seed) {
        EXPECT_EQ(hlthunk_get_hw_ip_info(m_card.fd, &m_info), 0);
        m_region = mmap(nullptr, 4 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(m_region, MAP_FAILED);
        // Not aligned to large pages, which follow rules of their own.
        auto base = reinterpret_cast<uintptr_t>(m_region);
        base = (base + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB) + kHostPage;
        m_host = reinterpret_cast<unsigned char *>(base);
        m_commands_at = m_card.map(m_commands);
        m_host_range = (m_commands_at & ~(kHostPage - 1)) + 0x100000000;
    }
    ~Walk() {
        for (const Reference::Export &entry : m_reference.exports)
            close(entry.fd);
        munmap(m_region, 4 * kMiB);
    }
    Walk(const Walk &) = delete;
    Walk &operator=(const Walk &) = delete;

    void step() {
        switch (below(20)) {
        case 0:
        case 1:
            allocate();
            break;
        case 2:
            allocate_refused();
            break;
        case 3:
            free();
            break;
        case 4:
        case 5:
            map_device();
            break;
        case 6:
        case 7:
            map_host();
            break;
        case 8:
            map_refused();
            break;
        case 9:
        case 10:
            unmap();
            break;
        case 11:
            unmap_refused();
            break;
        case 12:
            export_memory();
            break;
        case 13:
            export_refused();
            break;
        case 14:
            close_export();
            break;
        case 15:
            write_host();
            break;
        default:
            run_packets();
            break;
        }
        check_usage();
    }
    void check_everything() {
        check_host(0, kHostBytes);
        for (const auto &[address, mapping] : m_reference.mappings)
            if (mapping.handle != 0)
                for (const uint64_t window : places(mapping.size))
                    check_device(address + window, m_reference.allocations.at(mapping.handle).bytes, window);
        for (const uint64_t window : places(m_info.sram_size))
            check_device(m_info.sram_base_address + window, m_reference.sram, window);
    }

    uint64_t copies() const { return m_copies; }
    uint64_t refusals() const { return m_refusals; }

private:
    // ---- random choices
    uint64_t below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(m_random); }
    bool chance(uint64_t one_in) { return below(one_in) == 0; }
    template <class Map, class Wanted>
    auto pick(Map &map, Wanted wanted) {
        std::vector<typename Map::iterator> found;
        for (auto entry = map.begin(); entry != map.end(); ++entry)
            if (wanted(entry->second))
                found.push_back(entry);
        return found.empty() ? map.end() : found[below(found.size())];
    }

    // ---- refusals
    void refused(uint64_t result, int error) {
        EXPECT_EQ(result, 0u);
        EXPECT_EQ(errno, error);
        ++m_refusals;
    }
    void refused(int result, int error) {
        EXPECT_EQ(result, -error);
        EXPECT_EQ(errno, error);
        ++m_refusals;
    }

    // ---- allocation
    uint64_t available() const { return m_info.dram_size - m_reference.used; }
    void allocate() {
        const uint64_t size = below(5 * kPage) + 1;
        const uint64_t rounded = (size + kPage - 1) / kPage * kPage;
        const bool contiguous = chance(2);
        errno = 0;
        const uint64_t handle = hlthunk_device_memory_alloc(m_card.fd, size, 0, contiguous, chance(2));
        if (rounded > available())
            return refused(handle, ENOMEM);
        if (handle == 0) { // fragmentation is the only valid reason
            EXPECT_TRUE(contiguous && rounded > kPage);
            EXPECT_EQ(errno, ENOMEM);
            return;
        }
        EXPECT_FALSE(m_reference.allocations.contains(handle)) << "a handle in use was given out";
        m_reference.allocations[handle].size = rounded;
        m_reference.used += rounded;
    }
    void allocate_refused() {
        refused(hlthunk_device_memory_alloc(m_card.fd, 0, 0, false, false), EINVAL);
        refused(hlthunk_device_memory_alloc(m_card.fd, available() + 1, 0, chance(2), false), ENOMEM);
        refused(hlthunk_device_memory_alloc(m_card.fd, UINT64_MAX - below(kPage), 0, chance(2), false), ENOMEM);
    }
    void free() {
        if (chance(4))
            return refused(hlthunk_device_memory_free(m_card.fd, unknown_handle()), EINVAL);
        const auto entry = pick(m_reference.allocations, [](const auto &) { return true; });
        if (entry == m_reference.allocations.end())
            return;
        if (entry->second.mappings != 0)
            return refused(hlthunk_device_memory_free(m_card.fd, entry->first), EINVAL);
        EXPECT_EQ(hlthunk_device_memory_free(m_card.fd, entry->first), 0);
        m_reference.used -= entry->second.size;
        m_reference.allocations.erase(entry);
    }
    uint64_t unknown_handle() {
        const uint64_t handle = below(3) == 0 ? below(1000) : 100'000 + below(1'000'000);
        return m_reference.allocations.contains(handle) ? 0 : handle;
    }

    // ---- mapping
    void map_device() {
        const auto entry = pick(m_reference.allocations, [](const auto &) { return true; });
        if (entry == m_reference.allocations.end())
            return;
        const uint64_t size = entry->second.size;
        const bool aligned = !chance(4);
        uint64_t hint = chance(2) ? 0 : m_info.dram_base_address + below(400) * kPage;
        if (hint != 0 && !aligned)
            hint += below(kPage - 1) + 1;
        // One page more: the driver ignores a hint that ends exactly where its free range ends.
        const bool takes_hint = hint != 0 && aligned && m_reference.is_free(hint, hint + size + kPage);
        const uint64_t address = hlthunk_device_memory_map(m_card.fd, entry->first, hint);
        ASSERT_NE(address, 0u) << strerror(errno);
        if (takes_hint) {
            EXPECT_EQ(address, hint);
        }
        if (hint != 0 && !aligned) {
            EXPECT_NE(address, hint);
        }
        EXPECT_GE(address, m_info.dram_base_address);
        EXPECT_EQ((address - m_info.dram_base_address) % kPage, 0u);
        EXPECT_TRUE(m_reference.is_free(address, address + size)) << "two mappings overlap";
        ++entry->second.mappings;
        m_reference.mappings[address] = {address, address + size, size, entry->first, 0, 0};
    }
    void map_host() {
        const uint64_t offset = chance(2) ? below(kHostBytes / kHostPage) * kHostPage : below(kHostBytes);
        const uint64_t size = below(std::min<uint64_t>(kHostBytes - offset, 20'000)) + 1;
        const uint64_t shift = offset % kHostPage;
        const uint64_t whole = (shift + size + kHostPage - 1) / kHostPage * kHostPage;
        const bool aligned = !chance(4), force = chance(3);
        uint64_t hint = chance(2) ? 0 : m_host_range + below(2000) * kHostPage;
        if (hint != 0 && !aligned)
            hint += below(kHostPage - 1) + 1;
        const bool certain = m_reference.is_free(hint, hint + whole + kHostPage);
        const bool taken = !m_reference.is_free(hint, hint + whole);
        errno = 0;
        const uint64_t address = hlthunk_host_memory_map_flags(m_card.fd, m_host + offset, hint, size,
                                                               force ? uint32_t{HL_MEM_FORCE_HINT} : 0);
        if (force && hint != 0 && shift != 0)
            return refused(address, EINVAL);
        if (force && (hint == 0 || !aligned || taken))
            return refused(address, ENOMEM);
        if (address == 0) {
            EXPECT_TRUE(force && !certain) << strerror(errno);
            return;
        }
        if (hint != 0 && aligned && certain) {
            EXPECT_EQ(address, hint + shift);
        }
        EXPECT_EQ(address % kHostPage, shift);
        const uint64_t begin = address - shift;
        EXPECT_TRUE(m_reference.is_free(begin, begin + whole)) << "two mappings overlap";
        m_reference.mappings[address] = {begin, begin + whole, size, 0, offset, 0};
    }
    void map_refused() {
        refused(hlthunk_device_memory_map(m_card.fd, unknown_handle(), 0), EINVAL);
        refused(hlthunk_host_memory_map(m_card.fd, m_host, 0, 0), EINVAL);
        refused(hlthunk_host_memory_map(m_card.fd, reinterpret_cast<void *>(8 * kHostPage), 0, 100), EFAULT);
        refused(hlthunk_host_memory_map(m_card.fd, m_host, 0, UINT64_MAX - 4), EINVAL);
    }
    void unmap() {
        const auto entry = pick(m_reference.mappings, [](const auto &) { return true; });
        if (entry == m_reference.mappings.end())
            return;
        if (entry->second.exports != 0)
            return refused(hlthunk_memory_unmap(m_card.fd, entry->first), EINVAL);
        EXPECT_EQ(hlthunk_memory_unmap(m_card.fd, entry->first), 0);
        if (entry->second.handle != 0)
            --m_reference.allocations.at(entry->second.handle).mappings;
        m_reference.mappings.erase(entry);
    }
    void unmap_refused() {
        uint64_t address = below(4) == 0 ? below(UINT64_MAX) : m_info.dram_base_address + below(1000) * kPage;
        if (const auto entry = pick(m_reference.mappings, [](const auto &) { return true; });
            entry != m_reference.mappings.end() && chance(2))
            address = entry->first + below(entry->second.size) + 1;
        if (!m_reference.mappings.contains(address) && address != m_commands_at)
            refused(hlthunk_memory_unmap(m_card.fd, address), EINVAL);
    }

    // ---- export
    void export_memory() {
        const auto entry = pick(m_reference.mappings, [](const auto &mapping) { return mapping.handle != 0; });
        if (entry == m_reference.mappings.end() || m_reference.exports.size() >= 20)
            return;
        const uint64_t offset = below(entry->second.size / kHostPage) * kHostPage;
        const uint64_t size = (below((entry->second.size - offset) / kHostPage) + 1) * kHostPage;
        const int fd = chance(2) ? hlthunk_device_mapped_memory_export_dmabuf_fd(m_card.fd, entry->first, size, offset,
                                                                                 O_RDWR | O_CLOEXEC)
                                 : hlthunk_device_memory_export_dmabuf_fd(m_card.fd, entry->first, size, 0);
        ASSERT_GE(fd, 0) << strerror(errno);
        ++entry->second.exports;
        m_reference.exports.push_back({fd, entry->first});
    }
    void export_refused() {
        const auto attempt = [&](uint64_t address, uint64_t size, uint64_t offset, uint32_t flags) {
            const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(m_card.fd, address, size, offset, flags);
            refused(fd, EINVAL);
        };
        constexpr uint32_t flags = O_RDWR | O_CLOEXEC;
        const auto entry = pick(m_reference.mappings, [](const auto &) { return true; });
        if (entry == m_reference.mappings.end())
            return;
        const auto &[address, mapping] = *entry;
        if (mapping.handle == 0)
            return attempt(address, kHostPage, 0, flags);
        attempt(address, kHostPage, 0, static_cast<uint32_t>(below(O_CLOEXEC)));
        attempt(address + kHostPage * (below(1000) + 1), kHostPage, 0, flags);
        attempt(address, 0, 0, flags);
        attempt(address, kHostPage - 1 - below(kHostPage - 1), 0, flags);
        attempt(address, kHostPage, below(kHostPage - 1) + 1, flags);
        attempt(address, mapping.size + kHostPage, 0, flags);
        attempt(address, kHostPage, mapping.size + below(10) * kHostPage, flags);
        attempt(address, mapping.size, kHostPage, flags);
        attempt(address, kHostPage, UINT64_MAX - kHostPage + 1, flags);
    }
    void close_export() {
        if (m_reference.exports.empty())
            return;
        const size_t index = below(m_reference.exports.size());
        EXPECT_EQ(close(m_reference.exports[index].fd), 0);
        --m_reference.mappings.at(m_reference.exports[index].address).exports;
        m_reference.exports.erase(m_reference.exports.begin() + static_cast<ptrdiff_t>(index));
    }

    // ---- bytes
    struct Spot {
        uint64_t address = 0;
        Shadow *bytes = nullptr;
        uint64_t offset = 0;
    };
    /// Near the start, the middle or the end of `size` bytes.
    static std::array<uint64_t, 3> places(uint64_t size) {
        return {0, size / 2 / kHostPage * kHostPage, size - std::min<uint64_t>(size, 2 * kHostPage)};
    }
    Spot spot(uint64_t size) {
        const auto entry = pick(m_reference.mappings, [&](const auto &mapping) { return mapping.size >= size; });
        if (entry == m_reference.mappings.end() || chance(6)) {
            const uint64_t offset = places(m_info.sram_size).at(below(3)) + below(2 * kHostPage - size + 1);
            return {m_info.sram_base_address + offset, &m_reference.sram, offset};
        }
        const auto &[address, mapping] = *entry;
        if (mapping.handle == 0) {
            const uint64_t inside = below(mapping.size - size + 1);
            return {address + inside, &m_reference.host, mapping.offset + inside};
        }
        const uint64_t inside = places(mapping.size).at(below(3)) + below(2 * kHostPage - size + 1);
        return {address + inside, &m_reference.allocations.at(mapping.handle).bytes, inside};
    }
    void write_host() {
        const uint64_t offset = below(kHostBytes - 100);
        const auto bytes = pattern(below(100) + 1, static_cast<unsigned>(below(1000)));
        std::memcpy(m_host + offset, bytes.data(), bytes.size());
        m_reference.host.write(offset, bytes);
    }
    void run_packets() {
        Packets packets;
        std::vector<std::pair<uint64_t, uint64_t>> touched; // ranges of host memory
        for (uint64_t count = below(8) + 1; count > 0; --count) {
            const auto size = static_cast<uint32_t>(below(chance(3) ? 5000 : 70) + 1);
            const Spot to = spot(size);
            if (chance(4)) {
                const uint64_t value = below(UINT64_MAX);
                std::vector<unsigned char> bytes(size);
                for (size_t i = 0; i < size; ++i)
                    bytes[i] = static_cast<unsigned char>(value >> (i % 8 * 8));
                packets.fill(value, to.address, size);
                to.bytes->write(to.offset, bytes);
            } else {
                const Spot from = spot(size);
                if (from.bytes == to.bytes && from.offset < to.offset + size && to.offset < from.offset + size)
                    continue; // overlapping copies have no defined order
                const auto element = size_t{1} << (size % 8 == 0 && chance(3) ? below(4) : 0);
                auto bytes = from.bytes->read(from.offset, size);
                for (size_t i = 0; element > 1 && i < size; i += element)
                    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                                 bytes.begin() + static_cast<ptrdiff_t>(i + element));
                packets.copy(from.address, to.address, size, static_cast<unsigned>(std::countr_zero(element)));
                to.bytes->write(to.offset, bytes);
            }
            if (to.bytes == &m_reference.host)
                touched.emplace_back(to.offset, size);
            ++m_copies;
        }
        execute(packets);
        for (const auto &[offset, size] : touched)
            check_host(offset, size);
    }
    void execute(const Packets &packets) {
        ASSERT_LE(packets.size(), m_commands.size());
        std::copy_n(static_cast<const unsigned char *>(packets.data()), packets.size(), m_commands.begin());
        static constexpr std::array<uint32_t, 6> queues = {0, 3, 4, 8, 52, 127};
        std::array chunks = {Card::chunk(queues.at(below(queues.size())), m_commands_at, packets.size())};
        uint64_t seq = 0;
        ASSERT_EQ(m_card.try_submit(chunks, seq), 0) << strerror(errno);
        ASSERT_EQ(m_card.wait(seq), 0) << strerror(errno);
    }

    // ---- comparison
    void check_usage() {
        hlthunk_dram_usage_info usage{};
        ASSERT_EQ(hlthunk_get_dram_usage(m_card.fd, &usage), 0);
        EXPECT_EQ(usage.dram_free_mem, available());
        EXPECT_EQ(usage.ctx_dram_mem, m_reference.used);
    }
    void check_host(uint64_t offset, uint64_t size) {
        const auto wanted = m_reference.host.read(offset, size);
        EXPECT_EQ(std::memcmp(m_host + offset, wanted.data(), size), 0) << "host memory at " << offset;
    }
    void check_device(uint64_t address, const Shadow &bytes, uint64_t offset) {
        std::vector<unsigned char> back(2 * kHostPage);
        const uint64_t mapped = m_card.map(back);
        execute(Packets().copy(address, mapped, static_cast<uint32_t>(back.size())));
        EXPECT_EQ(hlthunk_memory_unmap(m_card.fd, mapped), 0);
        EXPECT_EQ(back, bytes.read(offset, back.size())) << std::hex << address;
    }

    std::mt19937 m_random;
    Card m_card;
    hlthunk_hw_ip_info m_info{};
    Reference m_reference;
    void *m_region = nullptr;
    unsigned char *m_host = nullptr;
    std::vector<unsigned char> m_commands = std::vector<unsigned char>(4096);
    uint64_t m_commands_at = 0, m_host_range = 0;
    uint64_t m_copies = 0, m_refusals = 0;
};

class Property : public SoftTest {
protected:
    static void walk(uint32_t seed) {
        std::printf("SOFTGAUDI_TEST_SEED=%u repeats this\n", seed);
        Walk walk(seed);
        for (int step = 0; step < kSteps; ++step) {
            walk.step();
            if (step % 200 == 0)
                walk.check_everything();
            ASSERT_FALSE(HasFailure()) << "at step " << step << " with SOFTGAUDI_TEST_SEED=" << seed;
        }
        walk.check_everything();
        EXPECT_FALSE(HasFailure()) << "at the end with SOFTGAUDI_TEST_SEED=" << seed;
        // A sequence without effect would match anything.
        EXPECT_GT(walk.copies(), uint64_t{kSteps} / 4);
        EXPECT_GT(walk.refusals(), uint64_t{kSteps} / 4);
    }
};

TEST_F(Property, random_call_sequence_matches_the_reference) {
    const char *wanted = std::getenv("SOFTGAUDI_TEST_SEED");
    walk(wanted ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 0)) : std::random_device{}());
}

TEST_F(Property, known_call_sequence_matches_the_reference) { walk(20240611); }

TEST_F(Property, known_call_sequence_with_posted_writes_matches_the_reference) {
    set("SOFTGAUDI_QUIRKS", "posted");
    walk(3);
}

} // namespace
