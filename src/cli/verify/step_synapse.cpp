// SPDX-License-Identifier: BSD-3-Clause
// The same copies in a process that has acquired the card through SynapseAI, as a framework does. Memory is SynapseAI's
// own, because it leaves none to others.
#include "gaudi/card/adoption.h"
#include "gaudi/framework/synapse_abi.h"
#include "interrupt.h"
#include "os/format.h"
#include "steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace gaudi::cli::verify {
namespace {

using namespace gaudi::vendor;
constexpr const char *kStep = "synapse";
constexpr auto kMostWait = std::chrono::seconds(15); // for the reset after this program has closed the card

/// SynapseAI with the card acquired.
struct Synapse {
    Status (*initialize)() = nullptr;
    Status (*destroy)() = nullptr;
    Status (*acquire)(DeviceId *device, std::uint32_t module) = nullptr;
    Status (*release)(DeviceId device) = nullptr;
    synDeviceGetInfoV2 *get_info = nullptr;
    synDeviceMalloc *malloc = nullptr;
    synDeviceFree *free = nullptr;
    synHostMap *host_map = nullptr;
    synHostUnmap *host_unmap = nullptr;
    synStreamCreateGeneric *create_stream = nullptr;
    synStreamSynchronize *synchronize = nullptr;
    synStreamDestroy *destroy_stream = nullptr;
    synMemCopyAsync *copy = nullptr;
    DeviceId device = 0;
    bool initialized = false, acquired = false;

    std::string load();
    std::string take(std::uint32_t module);
    ~Synapse() {
        if (acquired)
            release(device);
        if (initialized)
            destroy();
    }
};

template <class Function>
bool find(void *library, const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(::dlsym(library, name));
    return function != nullptr;
}

/// Why it cannot be used; empty if it can.
std::string Synapse::load() {
    void *library = ::dlopen("libSynapse.so", RTLD_NOW | RTLD_GLOBAL); // stays loaded
    if (!library)
        return os::format("libSynapse.so does not load: {}", ::dlerror());
    const bool complete = find(library, "synInitialize", initialize) && find(library, "synDestroy", destroy) &&
                          find(library, "synDeviceAcquireByModuleId", acquire) &&
                          find(library, "synDeviceRelease", release) && find(library, "synDeviceGetInfoV2", get_info) &&
                          find(library, "synDeviceMalloc", malloc) && find(library, "synDeviceFree", free) &&
                          find(library, "synHostMap", host_map) && find(library, "synHostUnmap", host_unmap) &&
                          find(library, "synStreamCreateGeneric", create_stream) &&
                          find(library, "synStreamSynchronize", synchronize) &&
                          find(library, "synStreamDestroy", destroy_stream) && find(library, "synMemCopyAsync", copy);
    return complete ? "" : "libSynapse.so lacks a function of its public headers";
}

/// Why the card was not acquired; empty if it was.
std::string Synapse::take(std::uint32_t module) {
    if (const Status status = initialize(); status != synSuccess)
        return os::format("synInitialize returned {}", static_cast<unsigned>(status));
    initialized = true;
    const auto limit = std::chrono::steady_clock::now() + kMostWait;
    Status status = synFail;
    while ((status = acquire(&device, module)) != synSuccess) {
        if (std::chrono::steady_clock::now() > limit || is_interrupted())
            return os::format("synDeviceAcquireByModuleId of module {} returned {}", module,
                              static_cast<unsigned>(status));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    acquired = true;
    return {};
}

void check_host_map(Findings &findings, const Synapse &synapse) {
    constexpr std::size_t kBytes = 64 << 10;
    void *memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const Status first = synapse.host_map(synapse.device, kBytes, memory);
    const Status second = synapse.host_map(synapse.device, kBytes, memory);
    const Status unmapped = synapse.host_unmap(synapse.device, memory);
    const Status again = synapse.host_unmap(synapse.device, memory);
    ::munmap(memory, kBytes);
    findings.add({.step = kStep,
                  .ids = {"A26"},
                  .verdict = verdict_of(first == synSuccess && second == synSuccess && unmapped == synSuccess &&
                                        again != synSuccess),
                  .did = "mapped memory of this program twice by synHostMap and unmapped it twice",
                  .saw = os::format("synHostMap: {}, {}; synHostUnmap: {}, {}", static_cast<unsigned>(first),
                                    static_cast<unsigned>(second), static_cast<unsigned>(unmapped),
                                    static_cast<unsigned>(again))});
}

/// A copy of memory that is not mapped, and then one of memory that is.
void check_refused_copy(Findings &findings, const Synapse &synapse, std::uint64_t device_memory) {
    constexpr std::size_t kBytes = 64 << 10;
    void *memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    StreamHandle stream = nullptr;
    Status created = synapse.create_stream(&stream, synapse.device, 0), refused = synFail, mapped = synFail,
           copied = synFail, ended = synFail;
    if (created == synSuccess) {
        refused = synapse.copy(stream, address, kBytes, device_memory, HOST_TO_DRAM);
        mapped = synapse.host_map(synapse.device, kBytes, memory);
        copied = synapse.copy(stream, address, kBytes, device_memory, HOST_TO_DRAM);
        ended = synapse.synchronize(stream);
        synapse.destroy_stream(stream);
        if (mapped == synSuccess)
            synapse.host_unmap(synapse.device, memory);
    }
    ::munmap(memory, kBytes);
    findings.add({.step = kStep,
                  .ids = {"A27"},
                  .verdict = created != synSuccess
                                 ? Verdict::not_testable
                                 : verdict_of(refused != synSuccess && copied == synSuccess && ended == synSuccess),
                  .did = "copied host memory that is not mapped by synMemCopyAsync, and then memory that is",
                  .saw = os::format("stream: {}; not mapped: {}; mapped: {}, ended: {}", static_cast<unsigned>(created),
                                    static_cast<unsigned>(refused), static_cast<unsigned>(copied),
                                    static_cast<unsigned>(ended))});
}

void check_acquired(Findings &findings, const Card &card, const Synapse &synapse, unsigned seconds) {
    DeviceInfoV2 info{};
    const Status got = synapse.get_info(synapse.device, &info);
    const auto recognised = got == synSuccess ? is_compute_node(card, static_cast<int>(info.fd)) : Result<bool>(false);
    findings.add({.step = kStep,
                  .ids = {"A22"},
                  .verdict = verdict_of(recognised && *recognised),
                  .did = "asked synDeviceGetInfoV2 for the descriptor of the card",
                  .saw = got != synSuccess           ? os::format("it returned {}", static_cast<unsigned>(got))
                         : recognised && *recognised ? os::format("descriptor {} is the card's compute node", info.fd)
                                                     : os::format("descriptor {} is none of the card", info.fd)});
    if (!recognised || !*recognised)
        return;
    const thunk::Fd copy(::fcntl(static_cast<int>(info.fd), F_DUPFD_CLOEXEC, 0));
    const thunk::Device device(card.library(), copy.get());
    const auto usage = device.dram_usage();
    const auto allocated = thunk::allocate(device, card.page_size());
    findings.add(
        {.step = kStep,
         .ids = {"A29"},
         .verdict = verdict_of(!allocated),
         .did = "allocated a page beside SynapseAI",
         .saw = os::format("{}; {} MiB are free", allocated ? "success" : thunk::errno_name(allocated.error().code),
                           usage ? usage->dram_free_mem >> 20 : 0)});
    check_host_map(findings, synapse);

    std::uint64_t memory = 0;
    if (const Status status = synapse.malloc(synapse.device, Target::kMemoryBytes, 0, 0, &memory);
        status != synSuccess) {
        findings.add({.step = kStep,
                      .ids = {"A21"},
                      .verdict = Verdict::not_testable,
                      .did = "allocated memory by synDeviceMalloc",
                      .saw = os::format("it returned {}", static_cast<unsigned>(status))});
        return;
    }
    check_refused_copy(findings, synapse, memory);
    Target target{card, device, memory, true};
    check_copies(findings, target);
    check_soak(findings, target, seconds);
    if (!is_abandoned())
        synapse.free(synapse.device, memory, 0);
}

} // namespace

void check_synapse(Findings &findings, const Card &card, unsigned seconds) {
    Synapse synapse;
    std::string why = synapse.load();
    if (why.empty())
        why = synapse.take(card.module_id());
    if (why.empty()) {
        check_acquired(findings, card, synapse, seconds);
        return;
    }
    findings.add({.step = kStep,
                  .ids = {"A21", "A22", "A26", "A27", "A29"},
                  .verdict = Verdict::not_testable,
                  .did = os::format("acquired card module:{} through SynapseAI", card.module_id()),
                  .saw = why});
}

void skip_synapse(Findings &findings) {
    findings.add({.step = kStep,
                  .ids = {"A21", "A22", "A26", "A27", "A29"},
                  .verdict = Verdict::not_testable,
                  .did = "nothing",
                  .saw = "SynapseAI is used only with --with-synapse"});
}

} // namespace gaudi::cli::verify
