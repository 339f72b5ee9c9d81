// SPDX-License-Identifier: BSD-3-Clause
#include "synapse_engine.h"

#include "gaudi/card/card.h"
#include "gaudi/host/host_access.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace gaudi {
namespace {

constexpr std::uint64_t kBusyNs = 200'000'000; // that a call to SynapseAI may take

/// SynapseAI, if it holds the card and copies for others.
const Synapse *find_synapse(const Card &card) {
    const Synapse *synapse = Synapse::holder_of(card);
    return synapse && synapse->can_copy() ? synapse : nullptr;
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

/// SynapseAI maps host memory itself and knows it by the processor's address. It takes no reference to memory that is mapped
/// already, and its unmap ends the mapping for all: memory of others, such as PyTorch's pinned tensors, is never passed to it.
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
    bool maps_own_memory_only() const override { return true; }

private:
    const Card &m_card;
    const std::shared_ptr<SynapseStream> m_stream;
};

} // namespace

bool SynapseEngine::may_serve(Card &) {
    const Synapse *synapse = Synapse::loaded();
    return synapse && synapse->can_copy();
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
    : Engine(session), m_stream(std::move(stream)) {
    m_worth_mapping = kNeverMapped;
}

// ---- posting --------------------------------------------------------------------------------------------------------

void SynapseEngine::post(Direction direction, Transfer &transfer) {
    const os::MutexLock lock(m_mutex);
    count_posted();
    if (failed())
        return end(transfer, copy_failure());
    m_waiting.push_back({direction, &transfer});
    m_waiting_bytes += transfer.length;
    if (m_batches.empty() || m_waiting_bytes >= kMaxBytes)
        send();
}

void SynapseEngine::end(Transfer &transfer, const Failure &failure) {
    transfer.failure = failure;
    transfer.emitted = transfer.length;
    Tally(*this).add(transfer);
    transfer.channel->finish(transfer);
    count_ended(1);
}

/// Makes writes of a NIC visible to SynapseAI's copies. It is no failure that a library lacks the call or that the driver has
/// no flush for the card (EOPNOTSUPP): early responses to PCIe writes came to drivers together with it, so a write that a
/// NIC has reported is in the card's memory there. Region exports nothing where the library lacks the call.
Result<void> SynapseEngine::flush_writes() {
    if (!m_session.device().library().has_flush())
        return {};
    const auto flushed = m_session.device().flush_pci_writes();
    return !flushed && flushed.error().code == EOPNOTSUPP ? Result<void>() : flushed;
}

/// Whether a refused copy fails alone. Otherwise SynapseAI has closed the card, or the card is lost.
bool SynapseEngine::fails_alone(const Error &refusal) const {
    const bool about_the_copy =
        refusal.code == EFAULT || refusal.code == EINVAL; // synMappingNotFound, synInvalidArgument
    return about_the_copy || (refusal.code != ENODEV && is_operational());
}

/// Starts the copies of the next batch; false where the others wait for another try, or all have failed.
bool SynapseEngine::start_copies() {
    std::optional<Result<void>> flushed; // once for all of them
    for (std::uint64_t bytes = 0; !m_waiting.empty() && m_started.size() < kMaxCopies && bytes < kMaxBytes;) {
        Transfer &transfer = *m_waiting.front().transfer;
        Result<void> started;
        if (transfer.flush && !flushed)
            flushed = flush_writes();
        if (transfer.flush)
            started = *flushed;
        if (started)
            started = m_stream->copy(vendor_direction(m_waiting.front().direction), transfer.destination,
                                     transfer.source, transfer.length);
        if (!started && m_shortage.may_end(started.error().code))
            return false;
        if (!started && !fails_alone(started.error())) {
            fail_all(started.error());
            return false;
        }
        m_waiting.pop_front();
        m_waiting_bytes -= transfer.length;
        if (!started) {
            end(transfer, make_copy_failure(started.error()));
            continue;
        }
        m_started.push_back(&transfer);
        bytes += transfer.length;
    }
    return true;
}

/// Records the event behind the copies that were started; false where that is to be tried again.
bool SynapseEngine::close_batch() {
    const auto event = m_stream->record_event();
    if (event) {
        m_shortage.end();
        count_submission();
        m_batches.push_back({*event, std::exchange(m_started, {})});
        return true;
    }
    if (m_shortage.may_end(event.error().code))
        return false;
    if (!fails_alone(event.error())) {
        fail_all(event.error());
        return false;
    }
    // Their memory may be used again as soon as their end is reported, so they must have ended.
    const auto ended = m_stream->synchronize();
    for (Transfer *transfer : std::exchange(m_started, {})) {
        transfer->abandoned = !ended;
        end(*transfer, ended ? nullptr : make_copy_failure(ended.error()));
    }
    if (!ended)
        m_abandoned.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void SynapseEngine::send() {
    while ((!m_waiting.empty() || !m_started.empty()) && m_batches.size() < kMaxBatches) {
        const bool all_started = !m_started.empty() || start_copies();
        if (!m_started.empty() && !close_batch())
            return;
        if (!all_started)
            return;
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
        if (!ended) {
            abandon_batches();
            return fail_all(ended.error());
        }
        if (!*ended)
            return;
        const Batch batch = std::move(m_batches.front());
        m_batches.pop_front();
        for (Transfer *transfer : batch.transfers)
            end(*transfer, nullptr);
    }
}

/// SynapseAI cannot tell whether they have ended: the card may still access their memory.
void SynapseEngine::abandon_batches() {
    for (const Batch &batch : m_batches) {
        for (Transfer *transfer : batch.transfers)
            transfer->abandoned = true;
        m_abandoned.fetch_add(1, std::memory_order_relaxed);
    }
}

void SynapseEngine::fail_all(const Error &error) {
    set_failed(error);
    const Failure failure = copy_failure();
    for (const Batch &batch : std::exchange(m_batches, {}))
        for (Transfer *transfer : batch.transfers)
            end(*transfer, failure);
    for (Transfer *transfer : std::exchange(m_started, {}))
        end(*transfer, failure);
    for (const Copy &copy : std::exchange(m_waiting, {}))
        end(*copy.transfer, failure);
    m_waiting_bytes = 0;
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
