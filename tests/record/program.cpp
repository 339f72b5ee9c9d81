// SPDX-License-Identifier: BSD-3-Clause
// The programs that the tests record: program NAME. It is linked to libhl-thunk as a framework is.
#include "record/calls.h"
#include "soft/soft.h"

#include <dlfcn.h>
#include <signal.h>

#include <cstdio>
#include <thread>
#include <utility>

namespace {

using namespace gaudi::record;

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "program: %s\n", what);
    std::exit(1);
}
void require(bool holds, const char *what) {
    if (!holds)
        fail(what);
}

// ---- every function once ----------------------------------------------------------------------------------------

alignas(8) char g_memory[8][8192]; // what pointers of a call point to

template <class T>
T argument(std::size_t position) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<T>(g_memory[position]);
    else
        return static_cast<T>(position + 3); // also a small count and a descriptor
}

template <class R, class... A, std::size_t... I>
void call_once(Function function, R (*pointer)(A...), std::index_sequence<I...>) {
    errno = 0;
    if constexpr (std::is_void_v<R>) {
        pointer(argument<A>(I)...);
    } else {
        const R result = pointer(argument<A>(I)...);
        if constexpr (!std::is_pointer_v<R> && !std::is_same_v<R, bool>)
            require(static_cast<std::uint64_t>(result) == static_cast<std::uint64_t>(function) + 1000,
                    "a result did not come through");
        else if constexpr (std::is_pointer_v<R>)
            std::free(result);
    }
    require(errno == static_cast<int>(function) + 1, "errno did not come through");
}

template <class R, class... A>
void call_once(Function function, R (*pointer)(A...)) {
    call_once(function, pointer, std::index_sequence_for<A...>());
}

void call_all() {
    void *library = ::dlopen("libhl-thunk.so", RTLD_NOW);
    require(library, "dlopen");
#define PROGRAM_CALL(name, result, parameters, ...)                                                                    \
    std::memset(g_memory, 0, sizeof g_memory);                                                                         \
    call_once(Function::name, reinterpret_cast<result(*) parameters>(::dlsym(library, "hlthunk_" #name)));
    GAUDI_RECORD_CALLS(PROGRAM_CALL)
}

// ---- a copy -----------------------------------------------------------------------------------------------------

constexpr std::uint64_t kMarker = 0x6B72616D61746144; // in the data that is copied

void copy(bool nested) {
    soft::Card card;
    std::vector<std::uint64_t> data(8192, kMarker), back(8192);
    const std::uint64_t memory = card.memory(), from = card.map(data), to = card.map(back);
    soft::Packets down;
    down.copy(from, memory, 65536);
    if (nested) {
        soft::Packets outer;
        outer.nested(card.place(down), down.size());
        card.run(soft::kDown, outer);
    } else {
        card.run(soft::kDown, down);
    }
    card.run(soft::kUp, soft::Packets().copy(memory, to, 65536));
    require(back == data, "wrong bytes");
}

/// A thread unmaps host memory, and another one maps memory that gets the same address before the first is back.
void map_while_unmapping() {
    void *fake = ::dlopen(std::getenv("GAUDI_RECORD_THUNK"), RTLD_NOW | RTLD_LOCAL);
    require(fake, "dlopen");
    static const int fd = ::open("/dev/null", O_RDWR);
    static soft::Packets packets;
    packets.nop().nop();
    static const auto map = [] {
        return hlthunk_host_memory_map(fd, const_cast<void *>(packets.data()), 0, packets.size());
    };
    const std::uint64_t address = map();
    *static_cast<void (**)()>(::dlsym(fake, "fake_on_unmap")) = [] { std::thread(map).join(); };
    require(hlthunk_memory_unmap(fd, address) >= 0, "memory_unmap");
    hl_cs_chunk chunk = soft::Card::chunk(0, address, packets.size());
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    hlthunk_command_submission(fd, &in, &out);
}

/// Host memory that the driver did not unmap is still the card's.
void submit_after_refused_unmap() {
    soft::Card card;
    const std::uint64_t address = card.place(soft::Packets().nop());
    require(hlthunk_memory_unmap(card.fd, address) == -EBUSY, "memory_unmap");
    std::array chunks = {soft::Card::chunk(soft::kDown, address, 8)};
    std::uint64_t sequence = 0;
    require(card.try_submit(chunks, sequence) == 0 && card.wait(sequence) == 0, "submission");
}

void poll(int fd, unsigned times) {
    for (unsigned i = 0; i < times; ++i)
        hlthunk_get_device_status_info(fd);
}

/// Ends in the middle of its work, as `how` says.
void die(const std::string &how) {
    const int fd = hlthunk_open_control(0, nullptr);
    poll(fd, 100);
    if (how == "_exit")
        ::_exit(0);
    if (how == "abort") {
        ::signal(SIGABRT, SIG_DFL);
        std::abort();
    }
    ::raise(SIGKILL);
}

void use_threads() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 8; ++i)
        threads.emplace_back([] {
            const int fd = hlthunk_open_control(0, nullptr);
            poll(fd, 500);
            hlthunk_close(fd);
        });
    for (std::thread &thread : threads)
        thread.join();
}

void use_fork() {
    const int fd = hlthunk_open_control(0, nullptr);
    poll(fd, 10);
    for (unsigned i = 0; i < 3; ++i) {
        if (const pid_t child = ::fork(); child == 0) {
            poll(fd, 10); // inherited
            ::_exit(0);   // LeakSanitizer would see what softgaudi leaves behind at a fork
        } else {
            int status = 0;
            require(::waitpid(child, &status, 0) == child && status == 0, "a child failed");
        }
    }
    hlthunk_close(fd);
}

/// As a framework that loads the library by itself, and unloads it.
void use_dlsym() {
    void *library = ::dlopen(std::getenv("GAUDI_THUNK"), RTLD_NOW | RTLD_LOCAL);
    require(library, "dlopen");
    auto *open = reinterpret_cast<decltype(&hlthunk_open_control)>(::dlsym(library, "hlthunk_open_control"));
    auto *close = reinterpret_cast<decltype(&hlthunk_close)>(::dlsym(library, "hlthunk_close"));
    require(close(open(0, nullptr)) == 0, "calls by dlsym");
    ::dlclose(library);
}

/// Descriptors that no call of the library made: a duplicate, and one that replaces another.
void use_duplicates() {
    soft::Card card;
    const int other = ::dup(card.fd);
    require(hlthunk_device_memory_alloc(other, soft::kPage, 0, false, false) != 0, "alloc by a duplicate");
    ::close(other);
    require(hlthunk_memory_unmap(card.fd, 4096) == -EINVAL, "unmap of an unknown address");
    const std::uint64_t memory = card.memory();
    const int exported = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, memory, 4096, 0, O_RDWR | O_CLOEXEC);
    require(exported >= 0 && hlthunk_memory_unmap(card.fd, memory) == -EINVAL, "unmap of exported memory");
    ::close(exported);
    require(hlthunk_memory_unmap(card.fd, memory) == 0, "unmap");
    require(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:ff:00.0") == -EINVAL, "open of no card");
    require(hlthunk_host_memory_map(card.fd, reinterpret_cast<void *>(8192), 0, 4096) == 0 && errno == EFAULT, "map");
    hlthunk_cs_out out{};
    hlthunk_cs_in in{};
    require(hlthunk_command_submission(card.fd, &in, &out) == -EINVAL, "empty submission");
    require(hlthunk_get_hw_ip_info(-1, nullptr) < 0, "no descriptor");
    char *version = hlthunk_get_version();
    hlthunk_free(version);
}

/// Calls with arrays, structures that point to others, notifiers and waits.
void use_descriptors() {
    soft::Card card;
    std::uint32_t events[16], cores[2] = {1, 2};
    char text[4096];
    int length = 0;
    hlthunk_get_hw_events_arr(card.fd, true, sizeof events, events);
    hlthunk_get_engine_status(card.fd, text, sizeof text, &length);
    hlthunk_engine_cores_set_mode(card.fd, cores, 2, HL_ENGINE_CORE_HALT);
    hlthunk_get_pci_bus_id_from_fd(card.fd, text, 13);
    hl_info_args args{};
    args.return_pointer = reinterpret_cast<std::uint64_t>(text);
    args.return_size = sizeof text;
    args.op = HL_INFO_HW_IP_INFO;
    require(hlthunk_get_info(card.fd, &args) == 0, "get_info");
    hlthunk_page_fault_info fault{};
    hlthunk_get_page_fault_info(card.fd, &fault, 0);
    const int notifier = hlthunk_notifier_create(card.fd);
    std::uint64_t notified = 0, count = 0;
    hlthunk_notifier_recv(card.fd, notifier, &notified, &count, 0, 0);
    require(hlthunk_notifier_release(card.fd, notifier) == 0, "notifier_release");
    hlthunk_signal_in in{};
    hlthunk_signal_out out{};
    require(hlthunk_signal_submission(card.fd, &in, &out) == 0, "signal");
    hlthunk_wait_for_signal_data data{};
    data.signal_seq_arr = &out.seq;
    data.signal_seq_nr = 1;
    hlthunk_wait_in wait{};
    wait.hlthunk_wait_for_signal = reinterpret_cast<std::uint64_t *>(&data);
    wait.num_wait_for_signal = 1;
    hlthunk_wait_out waited{};
    require(hlthunk_wait_for_signal(card.fd, &wait, &waited) == 0, "wait_for_signal");
    hlthunk_wait_multi_cs_in multi{};
    multi.seq = &out.seq;
    multi.seq_len = 1;
    hlthunk_wait_multi_cs_out answered{};
    hlthunk_wait_for_multi_cs(card.fd, &multi, &answered);
    std::uint64_t handle = 0;
    require(hlthunk_request_command_buffer(card.fd, 4096, &handle) == 0, "request_command_buffer");
    require(hlthunk_destroy_command_buffer(card.fd, handle) == 0, "destroy_command_buffer");
    std::vector<std::uint64_t> counter(512);
    card.map(counter);
    std::uint32_t status = 0;
    hlthunk_wait_for_interrupt(card.fd, counter.data(), 4, 257, 0, &status);
}

} // namespace

int main(int count, char **words) {
    const std::string name = count == 2 ? words[1] : "";
    if (name == "all")
        call_all();
    else if (name == "copy" || name == "nested")
        copy(name == "nested");
    else if (name == "refused")
        submit_after_refused_unmap();
    else if (name == "race")
        map_while_unmapping();
    else if (name == "threads")
        use_threads();
    else if (name == "fork")
        use_fork();
    else if (name == "dlsym")
        use_dlsym();
    else if (name == "duplicates")
        use_duplicates();
    else if (name == "descriptors")
        use_descriptors();
    else if (name == "none")
        return 7;
    else
        die(name);
    return ::testing::Test::HasFailure() ? 1 : 0;
}
