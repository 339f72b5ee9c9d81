// SPDX-License-Identifier: BSD-3-Clause
#include "synapse_engine.h"

#include "gaudi/card/adoption.h"
#include "gaudi/card/card.h"
#include "gaudi/host/host_access.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kBusyNs = 200'000'000; // that a call to SynapseAI may take

/// SynapseAI, if it holds the card and copies for others.
const Synapse *find_synapse(const Card &card) {
    const Synapse *synapse = Synapse::loaded();
    const bool holds = synapse && synapse->can_copy() &&
                       is_compute_node(card.library(), card.bus_id(), synapse->descriptor()).value_or(false);
    return holds ? synapse : nullptr;
}

vendor::CopyDirection vendor_direction(Direction direction) {
    switch (direction) {
    case Direction::down:
        return vendor::HOST_TO_DRAM;
    case Direction::up:
        return vendor::DRAM_TO_HOST;
    case Direction::on_card:
        break;
    }
    return vendor::DRAM_TO_DRAM;
}

/// SynapseAI maps host memory itself and knows it by the processor's address.
class SynapseMapper final : public HostMapper {
public:
    SynapseMapper(const Card &card, std::shared_ptr<SynapseStream> stream)
        : m_card(card), m_stream(std::move(stream)) {}

    Result<std::uint64_t> map(void *address, std::uint64_t length) override {
        return m_stream->map_host(address, length).map([&] { return reinterpret_cast<std::uint64_t>(address); });
    }
    Result<std::uint64_t> import_dmabuf(int, std::uint64_t) override {
        return tl::unexpected(thunk::make_error(ENOTSUP, "map", m_card.bus_id(),
                                                "SynapseAI, which holds the card, cannot import a dma-buf"));
    }
    Result<void> unmap(std::uint64_t start) override { return m_stream->unmap_host(reinterpret_cast<void *>(start)); }
    bool unmap_may_block() const override { return true; }

private:
    const Card &m_card;
    const std::shared_ptr<SynapseStream> m_stream;
};

} // namespace

bool SynapseEngine::may_serve(Card &card) {
    const Synapse *synapse = Synapse::loaded();
    if (!synapse || !synapse->can_copy())
        return false;
    const Session *session = card.find_session();
    return session && session->adopted() && find_synapse(card) != nullptr;
}

Result<std::shared_ptr<Engine>> SynapseEngine::start(Session &session) {
    const Synapse *synapse = find_synapse(session.card());
    if (!synapse) {
        // The hooks see SynapseAI's calls before it says which card it has opened: the next copy may find it.
        const bool may_come = session.adopted() && !session.card().takes_submissions() && Synapse::loaded() &&
                              Synapse::loaded()->can_copy();
        return tl::unexpected(thunk::make_error(may_come ? EAGAIN : ENOTSUP, "copy", session.card().bus_id(),
                                                "no framework in this process holds the card and copies on it"));
    }
    auto stream = SynapseStream::create(*synapse);
    if (!stream)
        return tl::unexpected(stream.error());
    std::shared_ptr<SynapseStream> shared = std::move(*stream);
    session.get<HostAccess>().set_mapper(std::make_shared<SynapseMapper>(session.card(), shared));
    return std::shared_ptr<Engine>(new SynapseEngine(session, std::move(shared)));
}

SynapseEngine::SynapseEngine(Session &session, std::shared_ptr<SynapseStream> stream)
    : Engine(session), m_stream(std::move(stream)) {}

// ---- posting --------------------------------------------------------------------------------------------------------

void SynapseEngine::post(Direction direction, Transfer &transfer) {
    const os::MutexLock lock(m_mutex);
    count_posted();
    if (failed())
        return end(transfer, copy_failure());
    m_waiting.push_back({direction, &transfer});
    if (m_batches.empty())
        send();
}

void SynapseEngine::end(Transfer &transfer, const Failure &failure) {
    transfer.failure = failure;
    transfer.emitted = transfer.length;
    transfer.channel->finish(transfer);
    count_ended(1);
}

/// Starts the first `count` waiting copies and records the event behind them.
Result<std::uint64_t> SynapseEngine::start_copies(std::size_t count) {
    const bool flush = std::any_of(m_waiting.begin(), m_waiting.begin() + static_cast<std::ptrdiff_t>(count),
                                   [](const Copy &copy) { return copy.transfer->flush; });
    if (flush && m_session.device().library().has_flush())
        (void)m_session.device().flush_pci_writes(); // a card that takes no submissions may take no flush either
    Result<void> started;
    for (std::size_t i = 0; i < count && started; ++i) {
        const Transfer &transfer = *m_waiting[i].transfer;
        started = m_stream->copy(vendor_direction(m_waiting[i].direction), transfer.destination, transfer.source,
                                 transfer.length);
    }
    auto event = started ? m_stream->record_event() : tl::unexpected(started.error());
    if (!event)
        m_stream->synchronize(); // copies that were started must not run on when their memory is unmapped
    return event;
}

void SynapseEngine::send() {
    while (!m_waiting.empty() && m_batches.size() < kMaxBatches) {
        const std::size_t count = std::min(m_waiting.size(), kMaxCopies);
        const auto event = start_copies(count);
        if (!event && m_shortage.may_end(event.error().code))
            return;
        if (!event &&
            (event.error().code == ENODEV || !is_operational())) // SynapseAI has closed the card, or it is lost
            return fail_all(event.error());
        std::vector<Transfer *> sent;
        for (std::size_t i = 0; i < count; ++i, m_waiting.pop_front())
            sent.push_back(m_waiting.front().transfer);
        if (event) {
            m_shortage.end();
            count_submission();
            m_batches.push_back({*event, std::move(sent)});
            continue;
        }
        const Failure failure = make_copy_failure(event.error());
        for (Transfer *transfer : sent)
            end(*transfer, failure);
    }
}

// ---- completion -----------------------------------------------------------------------------------------------------

void SynapseEngine::progress() {
    if (!busy() || m_session.inherited() || !m_mutex.try_lock())
        return; // or another thread is at it
    const os::MutexLock lock(m_mutex, std::adopt_lock);
    collect();
    send();
}

void SynapseEngine::collect() {
    while (!m_batches.empty()) {
        const auto ended = m_stream->has_ended(m_batches.front().event);
        if (!ended)
            return fail_all(ended.error());
        if (!*ended)
            return;
        const Batch batch = std::move(m_batches.front());
        m_batches.pop_front();
        for (Transfer *transfer : batch.transfers)
            end(*transfer, nullptr);
    }
}

void SynapseEngine::fail_all(const Error &error) {
    set_failed(error);
    const Failure failure = copy_failure();
    for (const Batch &batch : std::exchange(m_batches, {}))
        for (Transfer *transfer : batch.transfers)
            end(*transfer, failure);
    for (const Copy &copy : std::exchange(m_waiting, {}))
        end(*copy.transfer, failure);
}

void SynapseEngine::wait() {
    std::this_thread::sleep_for(std::chrono::microseconds(50)); // SynapseAI has no call that waits for one event only
}

void SynapseEngine::settle() {
    if (m_session.inherited()) // a thread of the parent may have held the lock
        return;
    const os::MutexLock lock(m_mutex);
}

void SynapseEngine::stop(const Error &why) {
    m_stream->abandon();
    const std::uint64_t limit = now_ns() + kBusyNs;
    while (!m_mutex.try_lock()) {
        if (now_ns() > limit)
            return end_watch();
        std::this_thread::yield();
    }
    fail_all(why);
    m_mutex.unlock();
    end_watch();
}

} // namespace gaudi
