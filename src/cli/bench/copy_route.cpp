// SPDX-License-Identifier: BSD-3-Clause
#include "copy_route.h"

#include "cli/verify/bench.h"

#include <utility>

namespace gaudi::cli::bench {

OrSentence<CopyRoute::Memory> CopyRoute::make_memory(Card *card, std::uint64_t length) const {
    Memory memory;
    if (card) {
        auto made = DeviceBuffer::make(m_cards, *card, length);
        if (!made)
            return Sentence(made.error());
        memory.device = std::move(*made);
    } else {
        auto made = HostBuffer::make(m_cards, length);
        if (!made)
            return Sentence(made.error());
        memory.host = std::move(*made);
    }
    return memory;
}

OrSentence<std::unique_ptr<Route>> CopyRoute::make(Cards &cards, const std::vector<PathEnds> &paths,
                                                   std::uint64_t length) {
    std::unique_ptr<CopyRoute> route(new CopyRoute(cards));
    auto scratch = HostBuffer::make(cards, length);
    if (!scratch)
        return Sentence(scratch.error());
    route->m_scratch = std::move(*scratch);
    for (const PathEnds &ends : paths) {
        auto source = route->make_memory(ends.from, length), destination = route->make_memory(ends.to, length);
        if (!source || !destination)
            return Sentence(!source ? source.error() : destination.error());
        Path path{std::move(*source), std::move(*destination), nullptr};
        HostBuffer *host = path.source.host ? path.source.host.get() : path.destination.host.get();
        path.range = host ? &host->range() : nullptr;
        route->m_paths.push_back(std::move(path));
    }
    return route;
}

OrSentence<void> CopyRoute::post(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                 HostRange *range) {
    const auto ended = [](void *user, const Error *error) {
        auto &route = *static_cast<CopyRoute *>(user);
        --route.m_under_way;
        if (error && route.m_failure.empty())
            route.m_failure = error->text;
    };
    const auto posted = m_mover.post({destination, source, length, range, ended, this});
    if (!posted)
        return Sentence(posted.error().text);
    if (*posted == Mover::Posted::started)
        ++m_under_way;
    return {};
}

/// Returns when no copy is under way: their memory may be used again only then, whatever has failed.
OrSentence<void> CopyRoute::finish() {
    while (m_under_way != 0)
        m_mover.progress();
    if (m_failure.empty())
        return {};
    return Sentence(std::exchange(m_failure, {}));
}

OrSentence<void> CopyRoute::transfer(std::uint64_t size, std::uint64_t count) {
    OrSentence<void> posted;
    for (std::uint64_t i = 0; i < count && posted; ++i)
        for (const Path &path : m_paths)
            if (posted)
                posted =
                    post(path.destination.address() + i * size, path.source.address() + i * size, size, path.range);
    auto finished = finish();
    return posted ? finished : posted;
}

OrSentence<void> CopyRoute::fill(std::uint64_t length, std::uint32_t seed) {
    for (const Path &path : m_paths) {
        verify::fill(path.source.host ? path.source.host->data() : m_scratch->data(), length, seed++);
        if (path.source.host)
            continue;
        auto copied = post(path.source.address(), m_scratch->address(), length, &m_scratch->range());
        auto finished = finish();
        if (!copied || !finished)
            return copied ? finished : copied;
    }
    return {};
}

OrSentence<bool> CopyRoute::check(std::uint64_t length, std::uint32_t seed) {
    bool same = true;
    for (const Path &path : m_paths) {
        const std::byte *data = path.destination.host ? path.destination.host->data() : m_scratch->data();
        if (!path.destination.host) {
            auto copied = post(m_scratch->address(), path.destination.address(), length, &m_scratch->range());
            auto finished = finish();
            if (!copied || !finished)
                return Sentence(copied ? finished.error() : copied.error());
        }
        same = verify::is_filled(data, length, seed++) && same;
    }
    return same;
}

} // namespace gaudi::cli::bench
