// SPDX-License-Identifier: BSD-3-Clause
// What the memory hooks add to a program's own calls of libhl-thunk: allocate, map, unmap and free 1 MiB, as a program
// does that is linked to the library, against the same calls looked up with dlsym, which no hook sees. UCX runs in the
// process and is notified of each mapping.
//
//     bench_hooks ROUNDS
#include "arguments.h"
#include "samples.h"
#include "thunk/abi.h"
#include "ucp_side.h"

#include <ucm/api/ucm.h>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

using bench::Json;
using e2e::Failure;

constexpr std::size_t kSize = 1 << 20;

template <class Function>
Function *find_function(void *library, Function *, const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        throw Failure(std::string("there is no ") + name);
    return reinterpret_cast<Function *>(found);
}

struct Calls {
    decltype(&hlthunk_device_memory_alloc) alloc;
    decltype(&hlthunk_device_memory_map) map;
    decltype(&hlthunk_memory_unmap) unmap;
    decltype(&hlthunk_device_memory_free) free;
};

/// Through the table of addresses that the linker gave the program, which the hooks change.
const Calls kLinked = {
    [](int fd, std::uint64_t size, std::uint64_t page, bool contiguous, bool shared) {
        return hlthunk_device_memory_alloc(fd, size, page, contiguous, shared);
    },
    [](int fd, std::uint64_t handle, std::uint64_t hint) { return hlthunk_device_memory_map(fd, handle, hint); },
    [](int fd, std::uint64_t address) { return hlthunk_memory_unmap(fd, address); },
    [](int fd, std::uint64_t handle) { return hlthunk_device_memory_free(fd, handle); },
};

Calls look_up() {
    void *library = dlopen(std::getenv("GAUDI_THUNK"), RTLD_NOW);
    if (!library)
        throw Failure("GAUDI_THUNK names no library: run this inside `ucx_gaudi run`");
    return {find_function(library, &hlthunk_device_memory_alloc, "hlthunk_device_memory_alloc"),
            find_function(library, &hlthunk_device_memory_map, "hlthunk_device_memory_map"),
            find_function(library, &hlthunk_memory_unmap, "hlthunk_memory_unmap"),
            find_function(library, &hlthunk_device_memory_free, "hlthunk_device_memory_free")};
}

void use(const Calls &calls, int fd) {
    const std::uint64_t handle = calls.alloc(fd, kSize, 0, false, false);
    const std::uint64_t address = calls.map(fd, handle, 0);
    if (address == 0 || calls.unmap(fd, address) != 0 || calls.free(fd, handle) != 0)
        throw Failure("the card gives no memory");
}

/// How many events UCX gets from these calls.
unsigned count_events(const Calls &calls, int fd) {
    const auto set = find_function(RTLD_DEFAULT, &ucm_set_event_handler, "ucm_set_event_handler");
    const auto unset = find_function(RTLD_DEFAULT, &ucm_unset_event_handler, "ucm_unset_event_handler");
    const auto count = [](ucm_event_type_t, ucm_event_t *, void *counter) { ++*static_cast<unsigned *>(counter); };
    unsigned events = 0;
    e2e::check(set(UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE, 1, count, &events), "ucm_set_event_handler");
    use(calls, fd);
    unset(UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE, count, &events);
    return events;
}

Json row(int fd, unsigned others, unsigned rounds) {
    constexpr unsigned kRuns = 8, kTimes = 64, kCalls = 4; // of about a millisecond, of which the fastest is a sample
    bench::progress("memory hooks, " + std::to_string(others) + " other mappings");
    const Calls unseen = look_up();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> kept;
    const auto give_back_first = [&] {
        const auto [handle, address] = kept.front();
        kept.erase(kept.begin());
        if (kLinked.unmap(fd, address) != 0 || kLinked.free(fd, handle) != 0)
            throw Failure("the card does not take its memory back");
    };
    for (unsigned i = 0; i <= others; ++i) {
        const std::uint64_t handle = kLinked.alloc(fd, kSize, 0, false, false);
        kept.emplace_back(handle, kLinked.map(fd, handle, 0));
    }
    give_back_first(); // the measured mapping gets its address: tables are slowest at their front
    if (count_events(kLinked, fd) != 2 || count_events(unseen, fd) != 0)
        throw Failure(
            "UCX was not notified of exactly the hooked calls: the hooks are off, or the other calls are hooked too");
    const auto time = [&](const Calls &calls) {
        return [&] {
            return bench::fastest(kRuns,
                                  [&] {
                                      for (unsigned i = 0; i < kTimes; ++i)
                                          use(calls, fd);
                                  }) /
                   (kTimes * kCalls);
        };
    };
    Json result{{"other_mappings", others}};
    result.update(bench::interleave(rounds, time(unseen), time(kLinked)).json());
    while (!kept.empty())
        give_back_first();
    return result;
}

Json measure(unsigned rounds) {
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    if (fd < 0)
        throw Failure("no card opens");
    const e2e::Side ucx(UCP_FEATURE_RMA); // starts late, as beside a framework
    Json rows = Json::array();
    for (const unsigned others : {0u, 100u})
        rows.push_back(row(fd, others, rounds));
    return rows;
}

} // namespace

int main(int argc, char **argv) {
    const auto rounds = argc == 2 ? bench::number(argv[1]) : std::nullopt;
    if (!rounds)
        return bench::usage("bench_hooks ROUNDS, where ROUNDS is a whole number above 0");
    try {
        std::printf("%s\n", Json{{"rows", measure(*rounds)}}.dump().c_str());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_hooks: %s\n", error.what());
        return 1;
    }
}
