// SPDX-License-Identifier: BSD-3-Clause
#include "region.h"

#include "gaudi/card/card.h"
#include "importers.h"
#include "os/format.h"

#include <cerrno>

namespace gaudi {
namespace {

/// Whether the writes of importers can be flushed, which copies from exported memory need: a copy that fails for want of it
/// ends the program, where UCX makes it. SynapseAI's copies do without a flush that the driver has not (EOPNOTSUPP), and
/// a card that takes no submissions has no other copies.
Result<void> try_flush(const Session &session) {
    auto flushed = session.device().flush_pci_writes();
    const bool needed = !session.adopted() && session.card().takes_submissions();
    if (!flushed && flushed.error().code == EOPNOTSUPP && !needed)
        return {};
    return flushed;
}

} // namespace

Range Region::allocation(std::uint64_t address) const {
    const std::uint64_t start = base();
    if (m_block && origin() == Origin::own) {
        if (const auto piece = m_block->heap.find(address - start))
            return {start + piece->offset, piece->length};
    }
    return {start, size()};
}

Result<thunk::Fd> Region::new_export() {
    if (!alive())
        return tl::unexpected(thunk::make_error(ENOENT, "export", "", "the memory was unmapped during the call"));
    if (!session().usable())
        return tl::unexpected(session().why_unusable());
    const thunk::Device &device = session().device();
    // Whole and from the start: the mainline driver ignores the offset of an export. The importer gets the displacement.
    // Without a flush a copy could read what was there before the importer wrote.
    Result<thunk::Fd> exported = device.library().has_flush()
                                     ? device.export_dmabuf(base(), export_size())
                                     : tl::unexpected(device.library().lacks("hlthunk_cs_flush_pci_hbw_writes"));
    if (exported && session().exports() == Session::Exports::unknown)
        if (const auto flushed = try_flush(session()); !flushed)
            exported = tl::unexpected(flushed.error());
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

Result<thunk::Fd> Region::new_descriptor() {
    if (origin() != Origin::own)
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
    if (shortage && ++m_shortages < kMaxShortages) {
        const os::MutexLock lock(m_refusal_mutex);
        m_why_no_export = error.text;
        return;
    }
    forbid_export(shortage ? os::format("{} ({} times in a row)", error.text, m_shortages) : error.text);
}

void Region::note_success() {
    m_shortages = 0;
    if (m_export_deferred.exchange(false, std::memory_order_acq_rel))
        m_exportable.store(true, std::memory_order_release);
}

void Region::forbid_export(const std::string &why) {
    {
        const os::MutexLock lock(m_refusal_mutex);
        m_why_no_export = why;
    }
    m_export_deferred.store(false, std::memory_order_release);
    m_exportable.store(false, std::memory_order_release);
}

void Region::defer_export() {
    const os::MutexLock lock(m_export_mutex);
    if (exportable()) // else the shortage was taken for a refusal
        set_deferred();
}

void Region::set_deferred() {
    m_export_deferred.store(true, std::memory_order_release);
    m_exportable.store(false, std::memory_order_release);
}

std::string Region::why_no_export() const {
    const os::MutexLock lock(m_refusal_mutex);
    return m_why_no_export;
}

Result<thunk::Fd> Region::dmabuf() {
    const os::MutexLock lock(m_export_mutex);
    auto descriptor = new_descriptor();
    for (unsigned tries = 1; !descriptor && tries < kTriesAtOnce && exportable(); ++tries)
        descriptor = new_descriptor();
    if (!descriptor) {
        if (exportable() && origin() == Origin::own) // a shortage: staged until an allocation finds that it has ended
            set_deferred();
        return descriptor;
    }
    note_success();
    note_handed_out();
    return descriptor;
}

/// Looks for importing devices each time, so that a device whose driver was loaded later is not missed.
void Region::note_handed_out() {
    m_was_exported.store(true, std::memory_order_release);
    if (!needs_flush() && importer_may_exist())
        m_needs_flush.store(true, std::memory_order_release);
}

void Region::expect_foreign_writes() {
    if (origin() != Origin::own && !needs_flush() && importer_may_have_come())
        m_needs_flush.store(true, std::memory_order_release);
}

std::optional<Result<void>> Region::probe_export(unsigned tries) {
    const os::MutexLock lock(m_export_mutex);
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
    if (!exportable() || origin() != Origin::own)
        return -1;
    const os::MutexLock lock(m_export_mutex);
    return make_export() ? m_export.get() : -1;
}

HostRange *Region::hold_import(std::size_t cards) {
    const os::MutexLock lock(m_export_mutex);
    if (!m_import) {
        if (!exportable() || origin() != Origin::own || !make_export())
            return nullptr;
        auto duplicate = m_export.duplicate();
        if (!duplicate)
            return nullptr;
        m_import = std::make_unique<HostRange>(base(), size(), cards, std::move(*duplicate), 0);
    }
    m_import->hold();
    return m_import.get();
}

void Region::begin(Session &session, Range range, Origin origin) {
    m_origin.store(origin, std::memory_order_release);
    m_session.store(&session, std::memory_order_release);
    m_base.store(range.base, std::memory_order_release);
    m_size.store(range.length, std::memory_order_release);
    m_export_deferred.store(false, std::memory_order_release);
    m_exportable.store(true, std::memory_order_release);
    m_was_exported.store(false, std::memory_order_release);
    m_needs_flush.store(false, std::memory_order_release);
    {
        const os::MutexLock lock(m_export_mutex);
        m_shortages = 0;
        m_export_number.store(-1, std::memory_order_release);
        m_export = thunk::Fd();
    }
    m_generation.fetch_add(1, std::memory_order_acq_rel);
}

void Region::end() {
    m_generation.fetch_add(1, std::memory_order_acq_rel);
    if (m_block)
        m_block->heap.reset();
    const os::MutexLock lock(m_export_mutex);
    m_import.reset(); // before the export that it imports
    m_export_number.store(-1, std::memory_order_release);
    m_export = thunk::Fd();
}

} // namespace gaudi
