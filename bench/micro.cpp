// SPDX-License-Identifier: BSD-3-Clause
// The steps of every message through the device layer, measured with Google Benchmark. Run it inside `ucx_gaudi run`
// with SOFTGAUDI_PACE=null:8, so that only the time of this code and of softgaudi's submission remains;
// poll_a_copy_on_its_way needs a slow link, for example SOFTGAUDI_PACE=down:0.02.
#include "arguments.h"
#include "gaudi/card/cards.h"
#include "gaudi/copy/mover.h"
#include "gaudi/host/host_range.h"
#include "gaudi/memory/address_map.h"
#include "gaudi/memory/allocation.h"
#include "gaudi/memory/arena.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace gaudi;

constexpr std::uint64_t kMiB = 1 << 20;

template <class T>
T need(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().text);
    return std::move(*result);
}

Cards &cards() { return *need(Cards::get()); }
Card &card() { return *cards().all().at(0); }

// ---- detection ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kMappings = 10'000, kLowest = 0x1001001800000000, kLength = 768 * kMiB;

const AddressMap &ten_thousand() {
    static AddressMap *const map = [] {
        auto *made = new AddressMap;
        auto *regions = new std::deque<Region>(kMappings);
        for (std::uint64_t i = 0; i < kMappings; ++i)
            made->insert(kLowest + 2 * i * kLength, kLength, &(*regions)[i]);
        return made;
    }();
    return *map;
}

/// Addresses in all mappings and in the gaps between them.
std::vector<std::uint64_t> scattered(unsigned seed) {
    std::vector<std::uint64_t> addresses(4096);
    std::uint64_t state = seed + 1;
    for (std::uint64_t &address : addresses) {
        state = state * 6364136223846793005 + 1442695040888963407;
        address = kLowest + (state >> 11) % (2 * kMappings * kLength);
    }
    return addresses;
}

void find_among_10000(benchmark::State &state) {
    const AddressMap &map = ten_thousand();
    const std::vector<std::uint64_t> addresses = scattered(static_cast<unsigned>(state.thread_index()));
    std::size_t i = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(map.find(addresses[i++ % addresses.size()]));
}
BENCHMARK(find_among_10000)->Threads(1)->Threads(8);

/// The most frequent query of UCX.
void find_host_memory(benchmark::State &state) {
    const AddressMap &map = ten_thousand();
    const auto address = reinterpret_cast<std::uint64_t>(&state);
    std::uint64_t i = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(map.find(address + i++ % 4096));
}
BENCHMARK(find_host_memory)->Threads(1)->Threads(8);

// ---- allocation -----------------------------------------------------------------------------------------------------

void allocate_and_free_1mib(benchmark::State &state) {
    Arena &arena = need(card().open())->get<Arena>();
    const std::uint64_t first = need(arena.allocate({.length = kMiB})); // keeps the block allocated
    for (auto _ : state) {
        const std::uint64_t address = need(arena.allocate({.length = kMiB}));
        benchmark::DoNotOptimize(address);
        arena.free(address);
    }
    arena.free(first);
}
BENCHMARK(allocate_and_free_1mib);

// ---- posting and polling --------------------------------------------------------------------------------------------

/// A mover with registered host memory and card memory.
struct Copies {
    explicit Copies(std::uint64_t size)
        : bytes(size, 1), range(reinterpret_cast<std::uint64_t>(bytes.data()), size, cards().all().size()),
          device(need(allocate(card(), {.length = size}))), mover(cards()) {
        post(0, 4096); // the second copy maps the memory
        post(0, 4096);
        finish();
    }
    ~Copies() {
        finish();
        need(card().open())->get<Arena>().free(device);
    }
    Copies(const Copies &) = delete;
    Copies &operator=(const Copies &) = delete;

    void post(std::uint64_t offset, std::uint64_t length) {
        const auto done = [](void *, const Error *error) {
            if (error)
                throw std::runtime_error(error->text);
        };
        need(mover.post(
            {device + offset, reinterpret_cast<std::uint64_t>(bytes.data()) + offset, length, &range, done, nullptr}));
    }
    void finish() {
        while (mover.outstanding() != 0)
            mover.progress();
    }

    std::vector<char> bytes;
    HostRange range;
    std::uint64_t device;
    Mover mover;
};

/// Copies of 4 KiB, several at once and not adjacent; time per copy.
void post_and_complete(benchmark::State &state) {
    const auto count = static_cast<std::uint64_t>(state.range(0));
    Copies copies(count * 8192);
    for (auto _ : state) {
        for (std::uint64_t i = 0; i < count; ++i)
            copies.post(i * 8192, 4096);
        copies.finish();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(post_and_complete)->Arg(1)->Arg(16)->Arg(1024);

/// Counts transfers as the engines do when a batch has ended.
class CountingEngine final : public Engine {
public:
    explicit CountingEngine(Session &session) : Engine(session) {}

    [[gnu::noinline]] void count(const std::vector<Transfer> &ended) {
        Tally tally(*this);
        for (const Transfer &transfer : ended)
            tally.add(transfer);
    }

    const char *name() const override { return "counting"; }
    void post(Direction, Transfer &) override {}
    void progress() override {}
    void wait() override {}
    void settle() override {}
    void stop(const Error &) override {}
    void release() override {}
};

/// What `ucx_gaudi top` costs a copy: the counters of a full batch; time per copy.
void count_ended_copies(benchmark::State &state) {
    CountingEngine engine(*need(card().open()));
    std::vector<Transfer> ended(64);
    for (Transfer &transfer : ended) {
        transfer.path = Path::down;
        transfer.length = 4096;
    }
    for (auto _ : state)
        engine.count(ended);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ended.size()));
}
BENCHMARK(count_ended_copies);

void poll_when_idle(benchmark::State &state) {
    Copies copies(8192);
    for (auto _ : state)
        benchmark::DoNotOptimize(copies.mover.progress());
}
BENCHMARK(poll_when_idle);

void poll_a_copy_on_its_way(benchmark::State &state) {
    constexpr std::uint64_t kSize = 2 * kMiB; // takes long on a slow link
    Copies copies(kSize);
    std::uint64_t in_vain = 0;
    for (auto _ : state) {
        if (copies.mover.outstanding() == 0) {
            state.PauseTiming();
            copies.post(0, kSize);
            state.ResumeTiming();
        }
        in_vain += copies.mover.progress() == 0 ? 1 : 0;
    }
    state.counters["in_vain"] = static_cast<double>(in_vain) / static_cast<double>(state.iterations());
}
BENCHMARK(poll_a_copy_on_its_way);

} // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (argc > 1)
        return bench::usage("bench_micro [--benchmark_filter=NAMES] and further options of Google Benchmark (--help)");
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
