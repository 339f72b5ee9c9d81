// SPDX-License-Identifier: BSD-3-Clause
// The completion flag under load. All queues that the product uses have several copies in flight at once. When the flag of
// a copy is seen, its data is looked at immediately: by this program where the copy was to host memory, else by a further
// copy on another queue, whose end the driver reports.
#include "gaudi/copy/queues.h"
#include "interrupt.h"
#include "os/format.h"
#include "steps.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace gaudi::cli::verify {
namespace {

constexpr const char *kStep = "soak";
constexpr unsigned kDepth = 3;         // copies in flight of each queue
constexpr unsigned kMostInFlight = 48; // as the product
constexpr std::uint32_t kBytes = 64 << 10;
constexpr auto kMostWait = std::chrono::seconds(10);

using Clock = std::chrono::steady_clock;
enum class Way { down, up, within };

/// One copy after another on one queue.
struct Worker {
    enum class State { idle, copying, checking };

    Way way;
    std::uint32_t queue;
    unsigned slot;       // of its copies; the next one is of its checks
    std::uint64_t place; // in the card's memory: two sources, then the destination
    std::unique_ptr<HostBlock> out, back;
    State state = State::idle;
    std::uint32_t flag = 0;
    std::uint32_t seeds[2] = {0, 0}; // of the sources in the card's memory
    std::uint32_t seed = 0;          // of the bytes that are to arrive
    unsigned turn = 0;
    std::uint64_t sequence = 0;
    Clock::time_point since;
};

class Soak {
public:
    explicit Soak(const Target &target) : m_target(target) {}

    Result<void> set_up() {
        for (const std::uint32_t queue : kDownQueues)
            add(Way::down, queue);
        for (const std::uint32_t queue : kUpQueues)
            add(Way::up, queue);
        for (const std::uint32_t queue : card_queues(m_target.card))
            add(Way::within, queue);
        auto ring = TestRing::make(m_target, static_cast<unsigned>(2 * m_workers.size()));
        if (!ring)
            return tl::unexpected(ring.error());
        m_ring = std::move(*ring);
        for (Worker &worker : m_workers) {
            auto out = HostBlock::make(m_target.device, kBytes), back = HostBlock::make(m_target.device, kBytes);
            if (!out || !back)
                return tl::unexpected(!out ? out.error() : back.error());
            worker.out = std::move(*out);
            worker.back = std::move(*back);
            // Sources in the card's memory, for the ways that read there.
            for (unsigned i = 0; i < 2; ++i) {
                worker.seeds[i] = fresh_seed();
                fill(worker.out->data(), kBytes, worker.seeds[i]);
                if (auto copied =
                        m_ring->copy(kDownQueues[0], worker.out->address(), worker.place + i * kBytes, kBytes);
                    !copied)
                    return copied;
            }
        }
        return {};
    }

    Result<void> run(std::chrono::seconds duration) {
        const auto begin = Clock::now(), end = begin + duration;
        auto shown = begin;
        while (Clock::now() < end && !is_interrupted() && m_early == 0) {
            for (Worker &worker : m_workers)
                if (auto moved = step(worker, true); !moved)
                    return moved;
            if (Clock::now() - shown > std::chrono::seconds(1)) {
                shown = Clock::now();
                Progress::show(os::format("soak: {} s of {} s, {} copies",
                                          std::chrono::duration_cast<std::chrono::seconds>(shown - begin).count(),
                                          duration.count(), m_copies));
            }
        }
        m_seconds = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::seconds>(std::min(Clock::now(), end) - begin).count());
        for (bool busy = true; busy;) { // memory is freed after the last copy
            busy = false;
            for (Worker &worker : m_workers) {
                if (auto moved = step(worker, false); !moved)
                    return moved;
                busy = busy || worker.state != Worker::State::idle;
            }
        }
        // The flag is what is tested: only the driver says that the card has finished with the memory.
        for (const Worker &worker : m_workers)
            if (worker.sequence != 0)
                if (auto ended = m_ring->wait(worker.sequence); !ended)
                    return ended;
        return {};
    }

    std::uint64_t copies() const { return m_copies; }
    std::uint64_t early() const { return m_early; }
    std::uint64_t seconds() const { return m_seconds; }
    const std::string &first_early() const { return m_first_early; }

private:
    void add(Way way, std::uint32_t queue) {
        for (unsigned i = 0; i < kDepth; ++i) {
            Worker worker{};
            worker.way = way;
            worker.queue = queue;
            worker.slot = static_cast<unsigned>(2 * m_workers.size());
            worker.place = m_target.memory + m_workers.size() * 3 * kBytes;
            m_workers.push_back(std::move(worker));
        }
    }

    Result<void> start(Worker &worker) {
        worker.turn ^= 1;
        TestRing::Copy copy{worker.place + worker.turn * kBytes, worker.place + 2 * kBytes, kBytes};
        worker.seed = worker.seeds[worker.turn];
        if (worker.way == Way::down) {
            worker.seed = fresh_seed();
            fill(worker.out->data(), kBytes, worker.seed);
            copy.source = worker.out->address();
        } else if (worker.way == Way::up) {
            std::memset(worker.back->data(), 0, kBytes);
            copy.destination = worker.back->address();
        }
        return submit(worker, worker.slot, worker.queue, copy, Worker::State::copying);
    }

    Result<void> submit(Worker &worker, unsigned slot, std::uint32_t queue, const TestRing::Copy &copy,
                        Worker::State state) {
        worker.flag = fresh_seed();
        const auto sequence = m_ring->submit(slot, queue, copy, worker.flag);
        if (!sequence) {
            if (m_in_flight != 0)
                abandon(); // the others still run
            return tl::unexpected(sequence.error());
        }
        worker.sequence = *sequence;
        worker.state = state;
        worker.since = Clock::now();
        ++m_in_flight;
        return {};
    }

    /// Moves one worker on; starts its next copy where `again`.
    Result<void> step(Worker &worker, bool again) {
        switch (worker.state) {
        case Worker::State::idle:
            return again && m_in_flight < kMostInFlight ? start(worker) : Result<void>();
        case Worker::State::copying:
            if (m_ring->flag(worker.slot) != worker.flag)
                return check_time(worker);
            --m_in_flight;
            ++m_copies;
            if (worker.way == Way::up) {
                compare(worker);
                worker.state = Worker::State::idle;
                return {};
            }
            std::memset(worker.back->data(), 0, kBytes);
            return submit(worker, worker.slot + 1, kUpQueues[1],
                          {worker.place + 2 * kBytes, worker.back->address(), kBytes}, Worker::State::checking);
        case Worker::State::checking:
            const auto waited = m_target.device.wait(worker.sequence, std::chrono::microseconds(0));
            if (!waited) {
                abandon();
                return tl::unexpected(waited.error());
            }
            if (*waited == thunk::Wait::busy)
                return check_time(worker);
            --m_in_flight;
            compare(worker);
            worker.state = Worker::State::idle;
            return {};
        }
        return {};
    }

    /// A flag that never comes is an error of its own: the product would wait for ever.
    Result<void> check_time(const Worker &worker) {
        if (Clock::now() - worker.since < kMostWait)
            return {};
        const auto waited = m_target.device.wait(worker.sequence, std::chrono::microseconds(0));
        abandon();
        return tl::unexpected(thunk::make_error(ETIMEDOUT, "soak", os::format("queue {}", worker.queue),
                                                waited && *waited == thunk::Wait::done
                                                    ? "the submission ended, and its completion flag was not written"
                                                    : "a submission did not end in 10 s"));
    }

    void compare(const Worker &worker) {
        if (is_filled(worker.back->data(), kBytes, worker.seed))
            return;
        if (m_early++ == 0)
            m_first_early = os::format("queue {}, copy {}", worker.queue, m_copies);
    }

    const Target &m_target;
    std::unique_ptr<TestRing> m_ring;
    std::vector<Worker> m_workers;
    unsigned m_in_flight = 0;
    std::uint64_t m_copies = 0, m_early = 0, m_seconds = 0;
    std::string m_first_early;
};

} // namespace

std::optional<SoakResult> check_soak(Findings &findings, const Target &target, unsigned seconds) {
    Finding finding{.step = kStep,
                    .ids = {target.shared ? "A21" : "A2"},
                    .verdict = Verdict::not_testable,
                    .did = os::format("copied on all queues at once for {} s, and looked at the data of each copy as "
                                      "soon as its completion flag was seen",
                                      seconds),
                    .saw = is_abandoned() ? "a submission before it did not end" : target.no_copies};
    if (seconds == 0)
        finding.saw = "--soak 0 leaves it out";
    if (!finding.saw.empty()) {
        findings.add(std::move(finding));
        return {};
    }
    Soak soak(target);
    Result<void> ended = soak.set_up();
    if (ended)
        ended = soak.run(std::chrono::seconds(seconds));
    if (is_interrupted() && soak.early() == 0)
        return {};
    const bool held = ended && soak.early() == 0;
    finding.verdict = verdict_of(held);
    finding.saw = !ended ? ended.error().text
                  : held ? os::format("{} copies, each with its data", soak.copies())
                         : os::format("a completion flag came before its data: {}", soak.first_early());
    findings.add(std::move(finding));
    if (!target.shared && (ended || soak.early() != 0))
        findings.measure({kStep, "flag_order_held", held});
    if (!ended && soak.early() == 0) // an error says nothing about the order: it makes no record, and replaces none
        return {};
    return SoakResult{held, soak.seconds(), soak.copies()};
}

} // namespace gaudi::cli::verify
