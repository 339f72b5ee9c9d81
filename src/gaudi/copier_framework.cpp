// SPDX-License-Identifier: BSD-3-Clause
// The engine on a card where we may not submit: its framework has the card, and copies for us.
#include "adoption.h"
#include "card.h"
#include "cards.h"
#include "copier.h"
#include "framework_stream.h"
#include "packets.h"

#include <cerrno>
#include <cstdlib>

namespace gaudi {

bool Copier::framework_copies() {
    const Framework *framework = Framework::loaded();
    return framework && framework->copies();
}

const Framework *Copier::framework_of(const Card &card) {
    const Framework *framework = Framework::loaded();
    const bool has_it = framework && framework->copies() &&
                        is_compute_node(card.cards().library(), card.bus_id(), framework->descriptor()).value_or(false);
    return has_it ? framework : nullptr;
}

Result<std::unique_ptr<Copier>> Copier::start_by_framework(Card &card, const thunk::Device &device) {
    const Framework *framework = framework_of(card);
    if (!framework)
        return tl::unexpected(
            thunk::make_error(ENOTSUP, "copy", card.bus_id(), "no framework in the process copies for us"));
    auto stream = FrameworkStream::create(*framework);
    if (!stream)
        return tl::unexpected(stream.error());
    std::unique_ptr<Copier> copier(new Copier(card, device));
    if (auto ready = copier->make_ring(); !ready)
        return tl::unexpected(ready.error());
    copier->m_framework = std::move(*stream);
    return copier;
}

// Without the engine's mutex: the framework may be in a call of its own that waits for us, see retire().
Result<void> Copier::map_by_framework(void *address, std::size_t length) {
    return m_framework->map_host(address, length);
}

Result<void> Copier::unmap_by_framework(void *address) { return m_framework->unmap_host(address); }

/// The packets of a batch, one call for each.
Result<std::uint64_t> Copier::send_by_framework(const Lane &lane, const Batch &batch) {
    const auto direction = static_cast<Direction>((&lane - m_lanes.data()) / 2);
    const auto *packets = reinterpret_cast<const packet::LinearDma *>(buffer(batch));
    Result<void> started;
    for (unsigned i = 0; i < batch.packets && started; ++i)
        started = m_framework->copy(direction, packets[i].destination, packets[i].source, packets[i].size);
    auto marked = started ? m_framework->mark() : tl::unexpected(started.error());
    if (!marked)
        m_framework->settle(); // what has started must not run on when its memory is let go of
    return marked;
}

} // namespace gaudi
