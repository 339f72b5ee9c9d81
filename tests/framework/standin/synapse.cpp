// SPDX-License-Identifier: BSD-3-Clause
// A libSynapse.so that holds one card of a software Gaudi2 server, allocates from libscal's pool, and copies by command
// submission. The old variant has no V2 calls and no generic streams. Host mappings behave as in the runtime's public
// source (github.com/HabanaAI/Intel_Gaudi3_Software, synapse/src/runtime: device_mem_alloc.cpp, buffer_allocator.cpp): a
// second mapping of the same range takes no reference, and one unmap ends it for all.
#include "synapse.h"
#include "standin.h"

#include "gaudi/copy/packets.h"
#include "gaudi/framework/synapse.h"
#include "thunk/abi.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

// Makes the compiler check the definitions below against the types that the product calls.
#define STANDIN_DECLARE(name) extern "C" gaudi::vendor::syn##name syn##name;
GAUDI_SYNAPSE_INFO(STANDIN_DECLARE)
GAUDI_SYNAPSE_COPY(STANDIN_DECLARE)
GAUDI_SYNAPSE_MEMORY(STANDIN_DECLARE)
#undef STANDIN_DECLARE

using namespace gaudi;
using namespace gaudi::vendor;

namespace {

constexpr std::uint64_t kAlignment = 128;          // of device memory
constexpr std::uint64_t kPiece = 1ull << 30;       // a packet's length has 32 bits
constexpr std::size_t kSlots = 32, kSlotSize = 64; // command buffers of a stream
constexpr std::uint32_t kDown = 0, kUp = 4;        // queues of a Gaudi2; kDown also copies within the card
constexpr std::uint64_t kForever = 60'000'000;     // microseconds

struct Host {
    std::uint64_t length;
    std::uint64_t mapped;   // the address for the card
    bool allocated = false; // by synHostMalloc
};

struct Stream {
    void *ring = nullptr; // command buffers
    std::uint64_t mapped = 0;
    std::array<std::uint64_t, kSlots> sent{}; // the sequence number of each slot; 0: unused
    std::size_t next = 0;
    std::uint32_t queue = kDown;
    std::uint64_t last = 0;
};

struct Event {
    std::uint64_t sequence = 0; // 0: nothing to wait for
};

struct State {
    std::mutex mutex;
    std::atomic<unsigned> waiting{0};  // for the mutex
    std::atomic<unsigned> in_calls{0}; // threads
    std::atomic<void (*)(void *)> in_call{nullptr};
    std::atomic<void *> in_call_user{nullptr};
    void (*at_close)(void *) = nullptr;
    void *at_close_user = nullptr;
    bool initialized = false;
    int fd = -1;
    ScalHandle scal = nullptr;
    std::uint64_t begin = 0, end = 0;              // of the pool
    std::uint64_t mapping = 0;                     // around the pool
    int dmabuf = -1;                               // of the mapping, on a card that takes no submissions
    std::map<std::uint64_t, std::uint64_t> device; // address to size
    std::map<std::uint64_t, Host> host;
    std::set<Stream *> streams;
    std::set<Event *> events;
};

State &state() {
    static State *const s_state = new State; // never destroyed: calls may come at exit
    return *s_state;
}

/// Counts a thread in while it is inside a call.
class InCall {
public:
    InCall() { ++state().in_calls; }
    ~InCall() { --state().in_calls; }
    InCall(const InCall &) = delete;
    InCall &operator=(const InCall &) = delete;
};

#define STANDIN_BEGIN(function)                                                                                        \
    if (const auto status = standin::find_fault(#function))                                                            \
        return static_cast<Status>(*status);                                                                           \
    const InCall in_call;                                                                                              \
    State &own = state();                                                                                              \
    ++own.waiting;                                                                                                     \
    const std::lock_guard guard(own.mutex);                                                                            \
    --own.waiting;                                                                                                     \
    if (!own.initialized)                                                                                              \
        return synUninitialized;

#define STANDIN_BEGIN_WITH_CARD(function)                                                                              \
    STANDIN_BEGIN(function)                                                                                            \
    if (own.fd < 0)                                                                                                    \
        return synNoDeviceFound;

Status wait(int fd, std::uint64_t sequence, std::uint64_t microseconds) {
    if (sequence == 0)
        return synSuccess;
    std::uint32_t status = HL_WAIT_CS_STATUS_BUSY;
    if (hlthunk_wait_for_cs(fd, sequence, microseconds, &status) < 0)
        return synDeviceReset;
    return status == HL_WAIT_CS_STATUS_COMPLETED ? synSuccess : synBusy;
}

/// The device address of host memory; 0 when not all of it is mapped.
std::uint64_t find_mapped(const State &own, std::uint64_t address, std::uint64_t length) {
    auto at = own.host.upper_bound(address);
    if (at == own.host.begin())
        return 0;
    --at;
    if (address - at->first > at->second.length || length > at->second.length - (address - at->first))
        return 0;
    return at->second.mapped + (address - at->first);
}

Status submit(const State &own, Stream &stream, std::uint32_t queue, const packet::LinearDma &packet) {
    // A stream is ordered, but two queues are not.
    if (queue != stream.queue)
        if (const Status status = wait(own.fd, stream.last, kForever); status != synSuccess)
            return status;
    const std::size_t slot = stream.next;
    if (const Status status = wait(own.fd, stream.sent[slot], kForever); status != synSuccess)
        return status;
    *reinterpret_cast<packet::LinearDma *>(static_cast<char *>(stream.ring) + slot * kSlotSize) = packet;
    hl_cs_chunk chunk{};
    chunk.cb_handle = stream.mapped + slot * kSlotSize;
    chunk.queue_index = queue;
    chunk.cb_size = sizeof(packet);
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    if (hlthunk_command_submission(own.fd, &in, &out) != 0)
        return synFail;
    stream.sent[slot] = stream.last = out.seq;
    stream.next = (slot + 1) % kSlots;
    stream.queue = queue;
    return synSuccess;
}

/// Whether a part of the range is mapped.
bool overlaps_mapped(const State &own, std::uint64_t address, std::uint64_t length) {
    const auto after = own.host.lower_bound(address);
    if (after != own.host.end() && after->first - address < length)
        return true;
    return after != own.host.begin() && address - std::prev(after)->first < std::prev(after)->second.length;
}

/// Ends a mapping, whoever made it, and with it the memory if that is synHostMalloc's.
void unmap_host(State &own, std::map<std::uint64_t, Host>::iterator at) {
    hlthunk_memory_unmap(own.fd, at->second.mapped);
    if (at->second.allocated)
        munmap(reinterpret_cast<void *>(at->first), at->second.length);
    own.host.erase(at);
}

void destroy_stream(State &own, Stream *stream) {
    (void)wait(own.fd, stream->last, kForever);
    hlthunk_memory_unmap(own.fd, stream->mapped);
    munmap(stream->ring, kSlots * kSlotSize);
    own.streams.erase(stream);
    delete stream;
}

Status acquire(State &own, DeviceId *device, int fd) {
    if (fd < 0)
        return synNoDeviceFound;
    ScalHandle scal = nullptr;
    PoolHandle pool = nullptr;
    PoolInfo info{};
    if (scal_init(fd, "", &scal, nullptr) != SCAL_SUCCESS) {
        hlthunk_close(fd);
        return synFail;
    }
    if (::scal_get_pool_handle_by_name(scal, kUserPool, &pool) != SCAL_SUCCESS ||
        ::scal_pool_get_infoV2(pool, &info) != SCAL_SUCCESS) {
        scal_destroy(scal);
        hlthunk_close(fd);
        return synFail;
    }
    own.fd = fd;
    own.scal = scal;
    hlthunk_hw_ip_info hardware{};
    if (hlthunk_get_hw_ip_info(fd, &hardware) == 0 && hardware.device_id != HL_PCI_ID_GAUDI2)
        own.dmabuf = hlthunk_device_mapped_memory_export_dmabuf_fd(
            fd, info.mapping, info.base + info.total - info.mapping, 0, O_RDWR | O_CLOEXEC);
    own.mapping = info.mapping;
    own.begin = info.base;
    own.end = info.base + info.total;
    *device = 0;
    return synSuccess;
}

} // namespace

STANDIN_EXPORT Status synInitialize() {
    State &own = state();
    const std::lock_guard guard(own.mutex);
    own.initialized = true;
    return synSuccess;
}

STANDIN_EXPORT Status synDeviceRelease(DeviceId) {
    if (state().in_calls != 0) // the runtime waits for no thread that is inside a call
        return synFail;
    STANDIN_BEGIN_WITH_CARD(synDeviceRelease)
    while (!own.streams.empty())
        destroy_stream(own, *own.streams.begin());
    while (!own.host.empty())
        unmap_host(own, own.host.begin());
    for (Event *event : own.events)
        delete event;
    own.events.clear();
    own.device.clear();
    if (own.dmabuf >= 0)
        close(std::exchange(own.dmabuf, -1));
    if (own.at_close)
        own.at_close(own.at_close_user);
    scal_destroy(own.scal);
    hlthunk_close(own.fd);
    own.fd = -1;
    return synSuccess;
}

STANDIN_EXPORT void standin_at_close(void (*call)(void *user), void *user) {
    State &own = state();
    const std::lock_guard guard(own.mutex);
    own.at_close = call;
    own.at_close_user = user;
}

STANDIN_EXPORT void standin_in_call(void (*call)(void *user), void *user) {
    state().in_call_user = user;
    state().in_call = call;
}

STANDIN_EXPORT unsigned standin_waiting() { return state().waiting; }

STANDIN_EXPORT Status synDestroy() {
    ::synDeviceRelease(0);
    STANDIN_BEGIN(synDestroy)
    own.initialized = false;
    return synSuccess;
}

STANDIN_EXPORT Status synDeviceAcquire(DeviceId *device, const char *bus_id) {
    STANDIN_BEGIN(synDeviceAcquire)
    return own.fd >= 0 ? synDeviceAlreadyAcquired
                       : acquire(own, device, hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id));
}

STANDIN_EXPORT Status synDeviceAcquireByModuleId(DeviceId *device, std::uint32_t module) {
    STANDIN_BEGIN(synDeviceAcquireByModuleId)
    return own.fd >= 0 ? synDeviceAlreadyAcquired : acquire(own, device, hlthunk_open_by_module_id(module));
}

namespace {

template <class Info>
Status fill_info(const State &own, Info *info) {
    if (own.fd < 0)
        return synFail;
    hlthunk_hw_ip_info hardware{};
    if (hlthunk_get_hw_ip_info(own.fd, &hardware) != 0)
        return synFail;
    *info = {};
    info->sram_base = hardware.sram_base_address;
    info->dram_base = hardware.dram_base_address;
    info->sram_size = hardware.sram_size;
    info->dram_size = hardware.dram_size;
    info->dram_enabled = hardware.dram_enabled;
    info->device_id = hardware.device_id;
    info->fd = static_cast<std::uint32_t>(own.fd);
    info->device_type = 4; // synDeviceGaudi2
    return synSuccess;
}

} // namespace

STANDIN_EXPORT Status synDeviceGetInfo(DeviceId, DeviceInfo *info) {
    STANDIN_BEGIN(synDeviceGetInfo)
    if (std::getenv("STANDIN_SHORT_INFO") == nullptr)
        return fill_info(own, info);
    // The structure of SynapseAI_Core has the descriptor at offset 40 and ends at 48.
    DeviceInfo whole{};
    const Status status = fill_info(own, &whole);
    std::memset(static_cast<void *>(info), 0, 48);
    std::memcpy(reinterpret_cast<char *>(info) + 40, &whole.fd, sizeof(whole.fd));
    return status;
}

STANDIN_EXPORT Status synDeviceMalloc(DeviceId, std::uint64_t size, std::uint64_t wanted, std::uint32_t flags,
                                      std::uint64_t *address) {
    STANDIN_BEGIN_WITH_CARD(synDeviceMalloc)
    if (size == 0 || flags != 0 || wanted != 0)
        return synInvalidArgument;
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    std::uint64_t at = own.begin;
    for (const auto &[start, length] : own.device) { // the first gap that is large enough
        if (start - at >= size)
            break;
        at = start + length;
    }
    if (own.end - at < size)
        return synOutOfDeviceMemory;
    own.device.emplace(at, size);
    *address = at;
    return synSuccess;
}

STANDIN_EXPORT Status synDeviceFree(DeviceId, std::uint64_t address, std::uint32_t) {
    STANDIN_BEGIN_WITH_CARD(synDeviceFree)
    return own.device.erase(address) == 1 ? synSuccess : synInvalidArgument;
}

STANDIN_EXPORT Status synHostMap(DeviceId, std::uint64_t length, const void *address) {
    STANDIN_BEGIN_WITH_CARD(synHostMap)
    const auto at = reinterpret_cast<std::uint64_t>(address);
    if (length == 0)
        return synInvalidArgument;
    if (const auto known = own.host.find(at); known != own.host.end() && known->second.length == length)
        return synSuccess; // without a reference: the next synHostUnmap ends it for everybody
    if (overlaps_mapped(own, at, length))
        return synInvalidArgument;
    const std::uint64_t place = hlthunk_host_memory_map(own.fd, const_cast<void *>(address), 0, length);
    if (place == 0)
        return synFail;
    own.host.emplace(at, Host{length, place});
    return synSuccess;
}

STANDIN_EXPORT Status synHostUnmap(DeviceId, const void *address) {
    STANDIN_BEGIN_WITH_CARD(synHostUnmap)
    const auto at = own.host.find(reinterpret_cast<std::uint64_t>(address));
    if (at == own.host.end())
        return synInvalidArgument;
    unmap_host(own, at);
    return synSuccess;
}

STANDIN_EXPORT Status synHostMalloc(DeviceId, std::uint64_t size, std::uint32_t flags, void **address) {
    STANDIN_BEGIN_WITH_CARD(synHostMalloc)
    if (size == 0 || flags != 0)
        return synInvalidArgument;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return synOutOfHostMemory;
    const std::uint64_t place = hlthunk_host_memory_map(own.fd, memory, 0, size);
    if (place == 0) {
        munmap(memory, size);
        return synFail;
    }
    own.host.emplace(reinterpret_cast<std::uint64_t>(memory), Host{size, place, true});
    *address = memory;
    return synSuccess;
}

STANDIN_EXPORT Status synHostFree(DeviceId, const void *address, std::uint32_t) {
    STANDIN_BEGIN_WITH_CARD(synHostFree)
    const auto at = own.host.find(reinterpret_cast<std::uint64_t>(address));
    if (at == own.host.end() || !at->second.allocated)
        return synInvalidArgument;
    unmap_host(own, at);
    return synSuccess;
}

STANDIN_EXPORT std::size_t standin_host_mappings() {
    State &own = state();
    const std::lock_guard guard(own.mutex);
    return own.host.size();
}

STANDIN_EXPORT_NEW Status synDeviceGetInfoV2(DeviceId, DeviceInfoV2 *info) {
    STANDIN_BEGIN(synDeviceGetInfoV2)
    const Status status = fill_info(own, info);
    PoolInfo pool{};
    if (status == synSuccess && ::scal_pool_get_infoV2(own.scal, &pool) == SCAL_SUCCESS)
        info->global_hbm_base = pool.mapping;
    return status;
}

STANDIN_EXPORT_NEW Status synStreamCreateGeneric(StreamHandle *handle, DeviceId, std::uint32_t) {
    STANDIN_BEGIN_WITH_CARD(synStreamCreateGeneric)
    void *ring = mmap(nullptr, kSlots * kSlotSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return synOutOfHostMemory;
    const std::uint64_t place = hlthunk_host_memory_map(own.fd, ring, 0, kSlots * kSlotSize);
    if (place == 0) {
        munmap(ring, kSlots * kSlotSize);
        return synFail;
    }
    auto *const stream = new Stream{.ring = ring, .mapped = place};
    own.streams.insert(stream);
    *handle = stream;
    return synSuccess;
}

STANDIN_EXPORT Status synStreamSynchronize(StreamHandle handle) {
    STANDIN_BEGIN_WITH_CARD(synStreamSynchronize)
    return wait(own.fd, static_cast<Stream *>(handle)->last, kForever);
}

STANDIN_EXPORT Status synStreamDestroy(StreamHandle handle) {
    STANDIN_BEGIN_WITH_CARD(synStreamDestroy)
    auto *const stream = static_cast<Stream *>(handle);
    if (const Status status = wait(own.fd, stream->last, 0); status != synSuccess)
        return status;
    destroy_stream(own, stream);
    return synSuccess;
}

namespace {

/// The engines of a Gaudi3 are private to the runtime, so this accesses the memory of the software card by its dma-buf.
Status copy_by_dmabuf(const State &own, std::uint64_t source, std::uint64_t length, std::uint64_t destination,
                      CopyDirection direction) {
    std::vector<char> bytes(length);
    const auto at = [&](std::uint64_t address) { return static_cast<off_t>(address - own.mapping); };
    const auto check_length = [&](ssize_t moved) {
        return moved == static_cast<ssize_t>(length) ? synSuccess : synFail;
    };
    if (direction == HOST_TO_DRAM)
        return check_length(pwrite(own.dmabuf, reinterpret_cast<const void *>(source), length, at(destination)));
    if (direction == DRAM_TO_HOST)
        return check_length(pread(own.dmabuf, reinterpret_cast<void *>(destination), length, at(source)));
    if (const Status status = check_length(pread(own.dmabuf, bytes.data(), length, at(source))); status != synSuccess)
        return status;
    return check_length(pwrite(own.dmabuf, bytes.data(), length, at(destination)));
}

} // namespace

STANDIN_EXPORT Status synMemCopyAsync(StreamHandle handle, std::uint64_t source, std::uint64_t length,
                                      std::uint64_t destination, CopyDirection direction) {
    STANDIN_BEGIN_WITH_CARD(synMemCopyAsync)
    if (own.dmabuf >= 0)
        return (direction == HOST_TO_DRAM && find_mapped(own, source, length) == 0) ||
                       (direction == DRAM_TO_HOST && find_mapped(own, destination, length) == 0)
                   ? synMappingNotFound
                   : copy_by_dmabuf(own, source, length, destination, direction);
    if (direction == HOST_TO_DRAM)
        source = find_mapped(own, source, length);
    if (direction == DRAM_TO_HOST)
        destination = find_mapped(own, destination, length);
    if (source == 0 || destination == 0)
        return synMappingNotFound;
    for (std::uint64_t done = 0; done < length;) {
        const std::uint64_t piece = std::min(length - done, kPiece);
        const Status status = submit(
            own, *static_cast<Stream *>(handle), direction == DRAM_TO_HOST ? kUp : kDown,
            {.size = static_cast<std::uint32_t>(piece), .source = source + done, .destination = destination + done});
        if (status != synSuccess)
            return status;
        done += piece;
    }
    return synSuccess;
}

STANDIN_EXPORT Status synEventCreate(EventHandle *event, DeviceId, std::uint32_t) {
    STANDIN_BEGIN_WITH_CARD(synEventCreate)
    *event = *own.events.insert(new Event).first;
    return synSuccess;
}

STANDIN_EXPORT Status synEventRecord(EventHandle event, StreamHandle stream) {
    STANDIN_BEGIN_WITH_CARD(synEventRecord)
    static_cast<Event *>(event)->sequence = static_cast<Stream *>(stream)->last;
    return synSuccess;
}

STANDIN_EXPORT Status synEventQuery(EventHandle event) {
    if (const auto call = state().in_call.load()) {
        const InCall in_call;
        call(state().in_call_user);
    }
    STANDIN_BEGIN_WITH_CARD(synEventQuery)
    return wait(own.fd, static_cast<Event *>(event)->sequence, 0);
}

STANDIN_EXPORT Status synEventDestroy(EventHandle event) {
    STANDIN_BEGIN_WITH_CARD(synEventDestroy)
    if (own.events.erase(static_cast<Event *>(event)) != 0)
        delete static_cast<Event *>(event);
    return synSuccess;
}
