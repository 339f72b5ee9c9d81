// SPDX-License-Identifier: BSD-3-Clause
#include "unpacked_key.h"

#include <array>
#include <bit>
#include <compare>
#include <tuple>

namespace gaudi::uct {

/// All of them, in chunks that double, and the free ones as a linked list.
class UnpackedKeys {
public:
    UnpackedKey *take() {
        std::uint64_t head = m_free.load(std::memory_order_acquire);
        while (number(head) != 0) {
            UnpackedKey &first = at(number(head) - 1);
            const std::uint32_t next = first.m_next.load(std::memory_order_relaxed);
            if (m_free.compare_exchange_weak(head, successor(head, next), std::memory_order_acquire))
                return &first;
        }
        return grow();
    }

    void give_back(UnpackedKey &key) { push(key, key); }

private:
    static constexpr unsigned kFirst = 64; // in the first chunk
    static constexpr unsigned kChunks = 26;

    // The head holds the index + 1 of the first free object, and a count of changes: a head that another thread has popped
    // and pushed again meanwhile is not mistaken for the same list.
    static std::uint32_t number(std::uint64_t head) { return static_cast<std::uint32_t>(head); }
    static std::uint64_t successor(std::uint64_t head, std::uint32_t number) {
        return ((head >> 32) + 1) << 32 | number;
    }

    UnpackedKey &at(std::uint32_t index) {
        const std::uint32_t shifted = index + kFirst;
        const auto chunk = static_cast<unsigned>(std::bit_width(shifted) - std::bit_width(kFirst));
        return m_chunks[chunk].load(std::memory_order_acquire)[shifted - (kFirst << chunk)];
    }

    void push(UnpackedKey &first, UnpackedKey &last) {
        std::uint64_t head = m_free.load(std::memory_order_relaxed);
        do {
            last.m_next.store(number(head), std::memory_order_relaxed);
        } while (!m_free.compare_exchange_weak(head, successor(head, first.m_index + 1), std::memory_order_release,
                                               std::memory_order_relaxed));
    }

    UnpackedKey *grow() {
        const os::MutexLock lock(m_growing);
        if (m_count == kChunks)
            throw std::bad_alloc();
        const std::uint32_t size = kFirst << m_count;
        auto *chunk = new UnpackedKey[size]; // kept: released keys must be recognised
        for (std::uint32_t i = 0; i < size; ++i) {
            chunk[i].m_index = size - kFirst + i;
            chunk[i].m_next.store(chunk[i].m_index + 2, std::memory_order_relaxed);
        }
        m_chunks[m_count++].store(chunk, std::memory_order_release);
        push(chunk[1], chunk[size - 1]);
        return &chunk[0];
    }

    std::atomic<std::uint64_t> m_free{0};
    std::array<std::atomic<UnpackedKey *>, kChunks> m_chunks{};
    os::Mutex m_growing{rank::kUnpackedKeys};
    unsigned m_count GAUDI_GUARDED_BY(m_growing) = 0;
};

namespace {

constinit UnpackedKeys g_keys;

} // namespace

UnpackedKey *UnpackedKey::make(const RemoteKey &key, const Resolved &memory) {
    UnpackedKey *unpacked = g_keys.take();
    unpacked->m_key = key;
    unpacked->m_memory = memory;
    unpacked->m_reach = key.own() && key.descriptor != RemoteKey::kUnreachable ? key.length : 0;
    unpacked->m_magic = kMagic;
    return unpacked;
}

void UnpackedKey::release() {
    m_magic = 0;
    g_keys.give_back(*this);
}

int UnpackedKey::compare(const UnpackedKey &one, const UnpackedKey &other) {
    const auto named = [](const UnpackedKey &key) {
        return std::tuple(key.m_key.process, key.m_key.address, key.m_key.length, key.m_key.descriptor,
                          key.m_memory.generation(),
                          key.m_memory ? reinterpret_cast<std::uintptr_t>(&key.m_memory.region()) : 0);
    };
    const std::strong_ordering order = named(one) <=> named(other);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
}

} // namespace gaudi::uct
