// SPDX-License-Identifier: BSD-3-Clause
#include "region.h"

#include "card.h"
#include "cards.h"
#include "host_range.h"
#include "importers.h"

#include <fmt/format.h>

#include <cerrno>

namespace gaudi {

Region::Region() = default;
Region::~Region() = default;

Range Region::allocation(std::uint64_t address) const {
    const std::uint64_t start = base();
    if (m_heap) {
        if (const auto piece = m_heap->find(address - start))
            return {start + piece->offset, piece->length};
    }
    return {start, size()};
}

Result<thunk::Fd> Region::new_export() {
    if (!alive())
        return tl::unexpected(thunk::make_error(ENOENT, "export", "", "the block is gone"));
    const auto device = card().if_held();
    if (!device)
        return tl::unexpected(thunk::make_error(ENODEV, "export", "", "the card is closed"));
    // Whole and from the start: the mainline driver ignores the offset of an export. The importer gets the rest.
    auto exported = device->export_dmabuf(base(), export_size());
    if (!exported)
        note_refusal(exported.error());
    return exported;
}

Result<void> Region::make_export() {
    if (m_export)
        return {};
    auto exported = new_export();
    if (!exported)
        return tl::unexpected(exported.error());
    m_export = std::move(*exported);
    m_export_number.store(m_export.get(), std::memory_order_release);
    return {};
}

/// What others made has no export that is kept.
Result<thunk::Fd> Region::new_descriptor() {
    if (origin() != Origin::ours)
        return new_export();
    if (auto made = make_export(); !made)
        return tl::unexpected(made.error());
    auto descriptor = m_export.duplicate();
    if (!descriptor)
        note_refusal(descriptor.error());
    return descriptor;
}

void Region::note_refusal(const Error &error) {
    const bool shortage = thunk::is_transient(error.code);
    if (shortage && ++m_shortages < kMostShortages) {
        const std::lock_guard guard(m_why_mutex);
        m_why_no_export = error.text;
        return;
    }
    forbid_export(shortage ? fmt::format("{} ({} times in a row)", error.text, m_shortages) : error.text);
}

void Region::note_success() {
    m_shortages = 0;
    if (m_export_deferred.exchange(false, std::memory_order_acq_rel))
        m_exportable.store(true, std::memory_order_release);
}

void Region::forbid_export(const std::string &why) {
    {
        const std::lock_guard guard(m_why_mutex);
        m_why_no_export = why;
    }
    m_export_deferred.store(false, std::memory_order_release);
    m_exportable.store(false, std::memory_order_release);
}

void Region::defer_export() {
    const std::lock_guard guard(m_export_mutex);
    if (exportable()) // else the last try was one too many
        set_deferred();
}

void Region::set_deferred() {
    m_export_deferred.store(true, std::memory_order_release);
    m_exportable.store(false, std::memory_order_release);
}

std::string Region::why_no_export() const {
    const std::lock_guard guard(m_why_mutex);
    return m_why_no_export;
}

Result<thunk::Fd> Region::dmabuf() {
    const std::lock_guard guard(m_export_mutex);
    auto descriptor = new_descriptor();
    for (unsigned tries = 1; !descriptor && tries < kTriesAtOnce && exportable(); ++tries)
        descriptor = new_descriptor();
    if (!descriptor) {
        if (exportable() && origin() == Origin::ours) // short of something: staged until an allocation finds it over
            set_deferred();
        return descriptor;
    }
    note_success();
    note_handed_out();
    return descriptor;
}

void Region::note_handed_out() {
    m_was_exported.store(true, std::memory_order_release);
    if (!needs_flush() && importer_may_exist())
        m_needs_flush.store(true, std::memory_order_release);
}

std::optional<Result<void>> Region::probe_export(unsigned tries) {
    const std::lock_guard guard(m_export_mutex);
    for (; tries > 0; --tries) {
        const auto descriptor = new_descriptor();
        const Result<void> made = descriptor ? Result<void>() : tl::unexpected(descriptor.error());
        if (made)
            note_success();
        const bool refused = !exportable() && !export_deferred();
        if (made || (refused && !thunk::is_transient(made.error().code)))
            return made;
        if (refused)
            break;
    }
    return {};
}

int Region::export_descriptor() {
    if (const int known = m_export_number.load(std::memory_order_acquire); known >= 0)
        return known;
    if (!exportable() || origin() != Origin::ours)
        return -1;
    const std::lock_guard guard(m_export_mutex);
    return make_export() ? m_export.get() : -1;
}

HostRange *Region::hold_window() {
    const std::lock_guard guard(m_export_mutex);
    if (!m_window) {
        if (!exportable() || origin() != Origin::ours || !make_export())
            return nullptr;
        auto own = m_export.duplicate();
        if (!own)
            return nullptr;
        m_window = std::make_unique<HostRange>(base(), size(), card().cards().all().size(), std::move(*own), 0);
    }
    m_window->hold();
    return m_window.get();
}

void Region::begin(Card &card, std::uint64_t base, std::uint64_t size, Origin origin) {
    m_origin.store(origin, std::memory_order_release);
    m_card.store(&card, std::memory_order_release);
    m_base.store(base, std::memory_order_release);
    m_size.store(size, std::memory_order_release);
    m_export_deferred.store(false, std::memory_order_release);
    m_exportable.store(true, std::memory_order_release);
    m_was_exported.store(false, std::memory_order_release);
    m_needs_flush.store(false, std::memory_order_release);
    {
        const std::lock_guard guard(m_export_mutex);
        m_shortages = 0;
        m_export_number.store(-1, std::memory_order_release);
        m_export = thunk::Fd();
    }
    m_generation.fetch_add(1, std::memory_order_acq_rel);
}

void Region::end() {
    m_generation.fetch_add(1, std::memory_order_acq_rel);
    if (m_heap)
        m_heap->reset();
    const std::lock_guard guard(m_export_mutex);
    m_window.reset(); // other cards let go first
    m_export_number.store(-1, std::memory_order_release);
    m_export = thunk::Fd();
}

} // namespace gaudi
