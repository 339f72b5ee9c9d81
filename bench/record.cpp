// SPDX-License-Identifier: BSD-3-Clause
// What the recorder adds to a call: the same calls through the recorder and directly to the libhl-thunk behind it.
//
//     ucx_gaudi run --cards 1 -- ucx_gaudi record -o FILE --size 1024 -- bench_record
#include "thunk/abi.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

constexpr unsigned kCalls = 8000, kRounds = 15;

struct Library {
    explicit Library(const char *variable) {
        const char *path = std::getenv(variable);
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
        if (!library) {
            std::fprintf(stderr, "bench_record: %s names no library: run this inside `ucx_gaudi record`\n", variable);
            std::exit(1);
        }
        find(library, open, "hlthunk_open");
        find(library, close, "hlthunk_close");
        find(library, status, "hlthunk_get_device_status_info");
        find(library, map, "hlthunk_host_memory_map");
        find(library, submit, "hlthunk_command_submission");
        find(library, wait, "hlthunk_wait_for_cs");
    }
    template <class Function>
    static void find(void *library, Function *&function, const char *name) {
        function = reinterpret_cast<Function *>(dlsym(library, name));
    }

    decltype(hlthunk_open) *open;
    decltype(hlthunk_close) *close;
    decltype(hlthunk_get_device_status_info) *status;
    decltype(hlthunk_host_memory_map) *map;
    decltype(hlthunk_command_submission) *submit;
    decltype(hlthunk_wait_for_cs) *wait;
};

/// Of this thread: other programs on the machine do not count.
double processor_time_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Nanoseconds per call. What `after` does is not measured.
template <class Call, class After>
double time_of(unsigned calls, Call &&call, After &&after) {
    constexpr unsigned kAtOnce = 32; // below the submissions that a card takes
    double sum = 0;
    for (unsigned i = 0; i < calls; i += kAtOnce) {
        const double start = processor_time_ns();
        for (unsigned j = 0; j < kAtOnce; ++j)
            call();
        sum += processor_time_ns() - start;
        after();
    }
    return sum / calls;
}

/// Alternates between both, because the machine's speed changes, and takes the median of the differences.
template <class Make, class After>
void compare(const char *what, const Library &recorder, const Library &real, Make &&make, After &&after) {
    std::vector<double> added, direct;
    for (unsigned round = 0; round < kRounds; ++round) {
        const double without = time_of(
            kCalls, [&] { make(real); }, after);
        const double with = time_of(
            kCalls, [&] { make(recorder); }, after);
        added.push_back(with - without);
        direct.push_back(without);
    }
    std::sort(added.begin(), added.end());
    std::sort(direct.begin(), direct.end());
    std::printf("%-40s %8.0f ns a call, recorded %8.0f ns more\n", what, direct[kRounds / 2], added[kRounds / 2]);
}

} // namespace

int main() {
    const Library recorder("GAUDI_THUNK"), real("GAUDI_RECORD_THUNK");
    const int fd = recorder.open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    constexpr unsigned kPackets = 64; // of the size of copies
    std::vector<std::uint64_t> commands(512);
    for (unsigned i = 0; i < 3 * kPackets; ++i)
        commands[i] = 0x0A00000000000000; // NOP, so that the card has nothing to do
    const std::uint64_t at = recorder.map(fd, commands.data(), 0, commands.size() * 8);
    if (fd < 0 || at == 0) {
        std::fprintf(stderr, "bench_record: no card could be opened\n");
        return 1;
    }
    hl_cs_chunk chunk{};
    chunk.cb_handle = at;
    chunk.cb_size = 24 * kPackets;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    std::uint32_t status = 0;
    const auto finish = [&] { real.wait(fd, out.seq, UINT64_MAX, &status); };
    recorder.submit(fd, &in, &out);
    finish();
    compare(
        "hlthunk_get_device_status_info", recorder, real, [&](const Library &one) { one.status(fd); }, [] {});
    compare(
        "hlthunk_wait_for_cs, a poll", recorder, real, [&](const Library &one) { one.wait(fd, out.seq, 0, &status); },
        [] {});
    compare(
        "hlthunk_command_submission, 1,536 bytes", recorder, real,
        [&](const Library &one) { one.submit(fd, &in, &out); }, finish);
    return recorder.close(fd);
}
