// SPDX-License-Identifier: BSD-3-Clause
#include "heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

namespace gaudi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kLarge = (1u << 20) / Heap::kGranule; // granules

std::uint32_t to_granules(std::uint64_t length) {
    return static_cast<std::uint32_t>((length + Heap::kGranule - 1) / Heap::kGranule);
}

} // namespace

Heap::Heap(std::uint64_t size) : m_granules(static_cast<std::uint32_t>(size / kGranule)) {
    std::array<std::size_t, kBitLevels> words{};
    std::size_t total = sizeof(Entry) * m_granules;
    std::size_t count = m_granules;
    for (std::size_t &level : words) {
        count = (count + 63) / 64;
        level = count;
        total += count * sizeof(std::uint64_t);
    }
    // Fresh anonymous pages are zeroes, which is a valid beginning for every field.
    m_memory_size = total;
    m_memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m_memory == MAP_FAILED)
        throw std::bad_alloc();
    auto *bits = static_cast<std::atomic<std::uint64_t> *>(m_memory);
    for (unsigned level = 0; level < kBitLevels; ++level) {
        m_bits[level] = bits;
        bits += words[level];
    }
    m_entries = reinterpret_cast<Entry *>(bits);
    reset();
}

Heap::~Heap() { munmap(m_memory, m_memory_size); }

void Heap::reset() {
    madvise(m_memory, m_memory_size, MADV_DONTNEED); // back to zeroes
    m_used = 0;
    m_allocations = 0;
    m_first_map = 0;
    m_second_map.fill(0);
    for (auto &heads : m_heads)
        heads.fill(kNone);
    m_entries[0].before = kNone;
    insert_free(0, m_granules);
    mark(0);
}

std::uint32_t Heap::granules(std::uint32_t start) const { return m_entries[start].granules.load(kRelaxed); }

bool Heap::is_free(std::uint32_t start) const { return m_entries[start].slack.load(kRelaxed) == 0; }

// ---- size classes: powers of two, each divided into sixteen

Heap::Class Heap::class_of(std::uint32_t granules) {
    const auto first = static_cast<unsigned>(std::bit_width(granules)) - 1;
    const unsigned second = first < 4 ? granules << (4 - first) & 15 : granules >> (first - 4) & 15;
    return {first, second};
}

/// The smallest class all of whose pieces are large enough.
Heap::Class Heap::class_to_search(std::uint32_t granules) {
    const auto first = static_cast<unsigned>(std::bit_width(granules)) - 1;
    if (first > 4) {
        const std::uint64_t rounded = granules + (std::uint64_t{1} << (first - 4)) - 1;
        granules = static_cast<std::uint32_t>(std::min<std::uint64_t>(rounded, UINT32_MAX));
    }
    return class_of(granules);
}

std::uint32_t Heap::find_free(std::uint32_t granules) const {
    const Class wanted = class_to_search(granules);
    std::uint32_t second = m_second_map[wanted.first] & ~0u << wanted.second;
    unsigned first = wanted.first;
    if (second == 0) {
        const std::uint32_t larger = first + 1 < kFirstLevels ? m_first_map & ~0u << (first + 1) : 0;
        if (larger != 0) {
            first = static_cast<unsigned>(std::countr_zero(larger));
            second = m_second_map[first];
        }
    }
    if (second != 0)
        return m_heads[first][static_cast<unsigned>(std::countr_zero(second))];
    // The class below may still hold one that fits: the last resort before another driver block is taken. Large free
    // pieces are few, and to overlook one of them would cost the card pages: all are looked at.
    const Class own = class_of(granules);
    const std::uint32_t most = granules >= kLarge ? UINT32_MAX : 64;
    for (std::uint32_t start = m_heads[own.first][own.second], looked = 0; start != kNone && looked < most; ++looked) {
        if (this->granules(start) >= granules)
            return start;
        start = m_entries[start].next_free;
    }
    return kNone;
}

void Heap::insert_free(std::uint32_t start, std::uint32_t granules) {
    const Class place = class_of(granules);
    std::uint32_t &head = m_heads[place.first][place.second];
    Entry &entry = m_entries[start];
    entry.granules.store(granules, kRelaxed);
    entry.slack.store(0, std::memory_order_release);
    entry.next_free = head;
    entry.previous_free = kNone;
    if (head != kNone)
        m_entries[head].previous_free = start;
    head = start;
    m_second_map[place.first] |= 1u << place.second;
    m_first_map |= 1u << place.first;
}

void Heap::remove_free(std::uint32_t start) {
    const Entry &entry = m_entries[start];
    const Class place = class_of(granules(start));
    std::uint32_t &head = m_heads[place.first][place.second];
    if (entry.previous_free != kNone)
        m_entries[entry.previous_free].next_free = entry.next_free;
    else
        head = entry.next_free;
    if (entry.next_free != kNone)
        m_entries[entry.next_free].previous_free = entry.previous_free;
    if (head == kNone) {
        m_second_map[place.first] &= ~(1u << place.second);
        if (m_second_map[place.first] == 0)
            m_first_map &= ~(1u << place.first);
    }
}

void Heap::set_before(std::uint32_t after, std::uint32_t start) {
    if (after < m_granules)
        m_entries[after].before = start;
}

void Heap::take(std::uint32_t piece, std::uint32_t start, std::uint32_t count, std::uint64_t length) {
    const std::uint32_t end = piece + granules(piece);
    remove_free(piece);
    if (start > piece) {
        insert_free(piece, start - piece);
        m_entries[start].before = piece;
    }
    m_entries[start].granules.store(count, kRelaxed);
    // Set before the start is marked: a reader that finds the mark finds the rest.
    m_entries[start].slack.store(static_cast<std::uint32_t>(count * kGranule - length) + 1, std::memory_order_release);
    if (start + count < end) {
        insert_free(start + count, end - start - count);
        m_entries[start + count].before = start;
        mark(start + count);
        set_before(end, start + count);
    } else {
        set_before(end, start);
    }
    mark(start);
    m_used += count;
    ++m_allocations;
}

std::optional<std::uint64_t> Heap::allocate(std::uint64_t length, std::uint64_t alignment, std::uint64_t origin) {
    if (length == 0 || length > size() || alignment > size())
        return {};
    const std::uint32_t count = to_granules(length);
    const std::uint32_t align = std::max<std::uint32_t>(to_granules(alignment), 1);
    if (count + std::uint64_t{align} - 1 > m_granules && align > 1)
        return {};
    const std::uint32_t piece = find_free(count + align - 1);
    if (piece == kNone)
        return {};
    const std::uint64_t over = (origin / kGranule + piece) % align;
    const auto start = static_cast<std::uint32_t>(over == 0 ? piece : piece + align - over);
    take(piece, start, count, length);
    return std::uint64_t{start} * kGranule;
}

bool Heap::allocate_at(std::uint64_t offset, std::uint64_t length) {
    if (length == 0 || offset % kGranule != 0 || offset >= size() || length > size() - offset)
        return false;
    const auto start = static_cast<std::uint32_t>(offset / kGranule);
    const std::uint32_t count = to_granules(length);
    const std::uint32_t piece = start_at_or_before(start);
    if (!is_free(piece) || start + count > piece + granules(piece))
        return false;
    take(piece, start, count, length);
    return true;
}

bool Heap::free(std::uint64_t offset) {
    const auto granule = static_cast<std::uint32_t>(offset / kGranule);
    if (offset % kGranule != 0 || offset >= size() || start_at_or_before(granule) != granule || is_free(granule))
        return false;
    std::uint32_t start = granule;
    std::uint32_t count = granules(granule);
    m_used -= count;
    --m_allocations;
    m_entries[granule].slack.store(0, std::memory_order_release);
    const std::uint32_t after = start + count;
    if (after < m_granules && is_free(after)) {
        count += granules(after);
        remove_free(after);
        unmark(after);
    }
    const std::uint32_t before = m_entries[start].before;
    if (before != kNone && is_free(before)) {
        count += granules(before);
        remove_free(before);
        unmark(start);
        start = before;
    }
    insert_free(start, count);
    set_before(start + count, start);
    return true;
}

// ---- which piece holds a granule: a bitmap of starts, and bitmaps of which of its words are not empty

void Heap::mark(std::uint32_t start) {
    std::size_t index = start;
    for (auto *bits : m_bits) {
        bits[index / 64].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_release);
        index /= 64;
    }
}

void Heap::unmark(std::uint32_t start) {
    std::size_t index = start;
    for (auto *bits : m_bits) {
        const std::uint64_t bit = std::uint64_t{1} << index % 64;
        if ((bits[index / 64].fetch_and(~bit, std::memory_order_release) & ~bit) != 0)
            break;
        index /= 64;
    }
}

std::uint32_t Heap::start_at_or_before(std::uint32_t granule) const {
    std::size_t index = granule;
    for (unsigned level = 0; level < kBitLevels; ++level) {
        const std::uint64_t word = m_bits[level][index / 64].load(std::memory_order_acquire);
        // On the lowest level the granule itself counts; above it only words in front do.
        const std::uint64_t upto =
            level == 0 ? ~std::uint64_t{0} >> (63 - index % 64) : (std::uint64_t{1} << index % 64) - 1;
        if ((word & upto) == 0) {
            index /= 64;
            continue;
        }
        index = index / 64 * 64 + static_cast<std::size_t>(63 - std::countl_zero(word & upto));
        while (level-- > 0) {
            const std::uint64_t below = m_bits[level][index].load(std::memory_order_acquire);
            if (below == 0)
                return 0; // changed meanwhile: granule 0 is always a start
            index = index * 64 + static_cast<std::size_t>(63 - std::countl_zero(below));
        }
        return static_cast<std::uint32_t>(index);
    }
    return 0;
}

std::optional<Heap::Piece> Heap::find(std::uint64_t offset) const {
    if (offset >= size())
        return {};
    const std::uint32_t start = start_at_or_before(static_cast<std::uint32_t>(offset / kGranule));
    const std::uint32_t slack = m_entries[start].slack.load(std::memory_order_acquire);
    if (slack == 0)
        return {};
    const std::uint64_t begin = std::uint64_t{start} * kGranule;
    const std::uint64_t length = granules(start) * kGranule - (slack - 1);
    if (offset - begin >= length)
        return {};
    return Piece{begin, length};
}

} // namespace gaudi
