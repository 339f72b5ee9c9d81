// SPDX-License-Identifier: BSD-3-Clause
#include "host_range.h"

#include <cerrno>
#include <chrono>
#include <thread>

namespace gaudi {
namespace {

constexpr auto kCopiesLimit = std::chrono::seconds(10);

/// Refusals that may be over at the next copy. The others are about the memory itself.
bool may_be_over(int code) {
    return thunk::is_transient(code) || code == ENODEV || code == EBADF ||
           code == EIO; // a card that was closed or reset, and may be opened again
}

} // namespace

HostMapping &HostMapping::operator=(HostMapping &&other) noexcept {
    if (this != &other) {
        end();
        m_mapping = std::move(other.m_mapping);
        m_copier = std::exchange(other.m_copier, nullptr);
        m_address = other.m_address;
        m_start = other.m_start;
        m_forks = other.m_forks;
    }
    return *this;
}

void HostMapping::detach() {
    m_mapping.detach();
    m_copier = nullptr;
}

void HostMapping::end() {
    if (m_forks != forks())
        detach();
    if (Copier *copier = std::exchange(m_copier, nullptr))
        thunk::release_or_report([&] { return copier->unmap_by_framework(m_address); });
}

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards)
    : m_address(address), m_length(length), m_starts(cards) {}

HostRange::HostRange(std::uint64_t address, std::uint64_t length, std::size_t cards, thunk::Fd dmabuf,
                     std::uint64_t offset)
    : m_address(address), m_length(length), m_dmabuf(std::move(dmabuf)), m_offset(offset), m_starts(cards) {}

HostRange::~HostRange() {
    // In a forked child nobody ends the copies, and nothing of the memory is unmapped.
    const bool held = m_copies->load(std::memory_order_acquire) != 0 && m_forks == forks();
    if (!held && !m_was_mapped.load(std::memory_order_acquire))
        return;
    if (held) {
        wait_for_copies();
        if (m_copies->load(std::memory_order_acquire) != 0) {
            const std::lock_guard guard(m_mutex);
            for (Mapped &mapped : m_mappings) {
                thunk::report(thunk::make_error(ETIMEDOUT, "unmap", mapped.card->bus_id(),
                                                "a copy does not end, so its host memory stays pinned"));
                mapped.mapping.detach();
            }
        }
    }
    Pinned::get().remove(*this);
    if (m_copies->load(std::memory_order_acquire) != 0)
        Pinned::get().keep(std::move(m_copies));
}

void HostRange::wait_for_copies() {
    const auto limit = std::chrono::steady_clock::now() + kCopiesLimit;
    while (has_running_copies() && std::chrono::steady_clock::now() < limit) {
        std::vector<Card *> cards;
        {
            const std::lock_guard guard(m_mutex);
            for (const Mapped &mapped : m_mappings)
                cards.push_back(mapped.card);
        }
        for (Card *card : cards)
            if (Copier *copier = card->copier_if_started())
                copier->progress();
        std::this_thread::yield(); // one that holds it may be about to post
    }
}

void HostRange::end_mappings(std::vector<HostMapping> &later) {
    for (Mapped &mapped : m_mappings)
        if (mapped.mapping.by_framework())
            later.push_back(std::move(mapped.mapping));
    m_mappings.clear();
}

std::optional<unsigned> HostRange::unmap_from(const Card &card) {
    const std::unique_lock guard(m_mutex, std::try_to_lock);
    m_starts[card.index()].store(0, std::memory_order_seq_cst); // also while it is being mapped on another card
    if (!guard)
        return {};
    const bool abandoned = m_copies->load(std::memory_order_acquire) / kAbandoned != 0;
    return static_cast<unsigned>(std::erase_if(m_mappings, [&](Mapped &mapped) {
        if (mapped.card != &card)
            return false;
        if (abandoned) // a submission may be at it: the driver unmaps it with the descriptor
            mapped.mapping.detach();
        return true;
    }));
}

Result<HostMapping> HostRange::map(Card &card) const {
    const auto address = reinterpret_cast<void *>(m_address);
    if (Copier *copier = card.copier_if_started(); copier && copier->by_framework()) {
        if (is_dmabuf())
            return tl::unexpected(thunk::make_error(ENOTSUP, "map", card.bus_id(), "its framework imports no dma-buf"));
        return copier->map_by_framework(address, m_length).map([&] { return HostMapping(*copier, address); });
    }
    const auto device = card.if_held();
    if (!device)
        return tl::unexpected(thunk::make_error(ENODEV, "map", card.bus_id(), "the card is closed"));
    // An import begins where the dma-buf does.
    auto mapping = is_dmabuf() ? thunk::map_dmabuf(*device, m_dmabuf.get(), m_offset + m_length)
                               : thunk::map_host(*device, address, m_length);
    if (!mapping)
        return tl::unexpected(mapping.error());
    return HostMapping(std::move(*mapping));
}

/// As map(), and others leave where the limit or the driver asks for it.
Result<HostMapping> HostRange::map_with_room(Card &card) const {
    if (!m_may_leave)
        return map(card);
    if (!Pinned::get().make_room(*this, m_length))
        return tl::unexpected(thunk::make_error(ENOMEM, "map", "", "too much host memory is pinned already"));
    auto mapping = map(card);
    while (!mapping && mapping.error().code == ENOMEM && Pinned::get().let_one_go(*this))
        mapping = map(card);
    return mapping;
}

/// False when a copy uses it, or a thread is mapping it.
bool HostRange::unmap_if_idle(std::vector<HostMapping> &later) {
    const std::unique_lock guard(m_mutex, std::try_to_lock);
    if (!guard || m_copies->load(std::memory_order_seq_cst) != 0)
        return false;
    std::vector<std::uint64_t> starts(m_starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i)
        starts[i] = m_starts[i].load(std::memory_order_relaxed);
    for (const Mapped &mapped : m_mappings)
        m_starts[mapped.card->index()].store(0, std::memory_order_seq_cst);
    if (m_copies->load(std::memory_order_seq_cst) != 0) { // one has just begun, and may have seen where
        for (std::size_t i = 0; i < starts.size(); ++i)
            m_starts[i].store(starts[i], std::memory_order_seq_cst);
        return false;
    }
    end_mappings(later);
    return true;
}

std::optional<std::uint64_t> HostRange::map_on(Card &card, std::uint64_t address) {
    std::atomic<std::uint64_t> &start = m_starts[card.index()];
    std::uint64_t known = start.load(std::memory_order_acquire);
    if (known == 0) {
        const std::lock_guard guard(m_mutex);
        known = start.load(std::memory_order_acquire);
        if (known == 0) {
            const std::uint64_t life = card.life();
            m_being_mapped.store(true, std::memory_order_release);
            auto mapping = map_with_room(card);
            m_being_mapped.store(false, std::memory_order_release);
            if (!mapping)
                m_refusal = mapping.error().text;
            if (!mapping && (may_be_over(mapping.error().code) || card.life() != life))
                return {};
            known = kRefused;
            if (mapping) {
                m_was_mapped.store(true, std::memory_order_release);
                known = mapping->start() + m_offset;
                m_mappings.push_back({&card, std::move(*mapping)});
                if (!Pinned::get().add(*this, m_length, card, life)) { // closed while it was mapped
                    m_mappings.back().mapping.detach();
                    m_mappings.pop_back();
                    m_refusal = "the card was closed while host memory was mapped on it";
                    return {};
                }
            }
            start.store(known, std::memory_order_release);
        }
    }
    if (known == kRefused)
        return {};
    return known + (address - m_address);
}

} // namespace gaudi
