// SPDX-License-Identifier: BSD-3-Clause
// The state shared by all processes of a fabric: a file that each of them maps. It holds no pointer, and a process may
// be killed at any instruction. The low bits of an object's id are its index in the table, the others count the uses of
// that entry, so that an id is not reused soon.
#pragma once

#include "common/lock_ranks.h"
#include "gaudi/shared.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace softhca {

using soft::Rank;
using softgaudi::Event;
using softgaudi::kForever;
using softgaudi::monotonic_ns;
using softgaudi::RobustMutex;

inline constexpr unsigned kMaxDevices = 4;
inline constexpr uint32_t kMaxSge = 16;
inline constexpr uint32_t kMaxInline = 1024;
inline constexpr uint32_t kMaxQueue = 16384; // work requests or completions in one queue
inline constexpr uint32_t kMaxMessage = 1u << 30;
inline constexpr uint32_t kMtu = 4096;
inline constexpr uint32_t kClosing = UINT32_MAX; // id of an entry that is neither in use nor free

/// The common part of all table entries.
struct Entry {
    std::atomic<uint32_t> id; // 0 is a free entry; written last on creation, first on destruction
    uint32_t uses;
    uint32_t process; // index of the owner's entry
    bool mutex_made;
    RobustMutex<Rank::entry> mutex;
};

template <class T, size_t N, unsigned Bits>
struct Table {
    static_assert(std::has_single_bit(N));
    static constexpr uint32_t kIndexBits = std::countr_zero(N);
    static constexpr uint32_t kMaxUses = (1u << (Bits - kIndexBits)) - 1;

    std::array<T, N> entries;
    uint32_t next; // where the search for a free entry starts

    static uint32_t index(uint32_t id) { return id & (N - 1); }
    /// Null when the object is gone. It can go at any moment unless its lock is held.
    T *find(uint32_t id) {
        T &entry = entries[index(id)];
        return id != 0 && entry.id.load(std::memory_order_acquire) == id ? &entry : nullptr;
    }
};

/// A part of the shared queue memory.
struct Extent {
    uint32_t first; // in units
    uint32_t count; // 0 is empty
};

struct ProcessEntry : Entry {
    std::atomic<int32_t> pid;
    Event wake; // wakes its engine
    /// Ids of the regions (or 0) whose bytes its engine is moving: deregistration waits for these.
    std::array<std::atomic<uint32_t>, 2> touching;
};

/// An open device and the FIFO of its asynchronous events.
struct ContextEntry : Entry {
    uint32_t device;
};

/// A completion channel and its FIFO.
struct ChannelEntry : Entry {};

struct Completion {
    uint64_t wr_id;
    uint32_t status, opcode, byte_len, imm_data, qp_num, src_qp, wc_flags, vendor_err;
    uint16_t slid;
    uint8_t sl, solicited;
};

enum class Armed : uint32_t { no, solicited, any };

struct CqEntry : Entry {
    uint32_t context, channel, capacity;
    Extent extent;
    std::atomic<uint32_t> head, tail; // count without bound
    std::atomic<Armed> armed;
    bool overrun;
};

struct Sge {
    uint64_t address;
    uint32_t length, lkey;
};

struct Receive {
    uint64_t wr_id;
    uint32_t sges;
    uint32_t unused;
    std::array<Sge, kMaxSge> sge; // a queue stores only the number it was created for
};

/// A ring of receive requests; the lock of the entry that contains it guards it.
struct ReceiveRing {
    Extent extent;
    uint32_t capacity, max_sge;
    uint32_t head, tail; // count without bound
};

struct SrqEntry : Entry {
    uint32_t context, pd;
    ReceiveRing ring;
    uint32_t limit; // 0 is disarmed
};

/// The part of a queue pair that its peer needs; the send queue is private to the owner. Changing values are atomic,
/// because RDMA reads them without the lock, which a stopped process may hold.
struct QpEntry : Entry {
    uint32_t context, device, pd;
    uint32_t type; // ibv_qp_type
    uint32_t send_cq, recv_cq, srq;
    ReceiveRing ring;
    std::atomic<uint32_t> state; // ibv_qp_state
    std::atomic<uint32_t> access;
    std::atomic<uint32_t> peer_qp;
    std::atomic<uint32_t> peer_lid;
    std::atomic<uint32_t> qkey;
    std::atomic<uint32_t> min_rnr_timer;
    std::atomic<uint32_t> max_dest_rd_atomic;
};

/// Bytes moved by work requests, local and remote.
struct Traffic {
    std::atomic<uint64_t> local_read, local_written, remote_read, remote_written;
};

enum class Kind : uint32_t { host, dmabuf };

struct MrEntry : Entry {
    uint32_t device, pd, access;
    Kind kind;
    uint64_t iova, length;
    uint64_t base;                  // host: address in the owner; dma-buf: offset in the file
    int32_t fd;                     // dma-buf: descriptor in the owner
    bool kernel;                    // dma-buf of the kernel, which can only be mapped
    std::atomic<uint32_t> imported; // dma-buf: 1 when the engine of another process has opened it
    Traffic traffic;
};

struct DeviceEntry {
    std::atomic<uint32_t> down;     // link down, set by a fault
    std::array<Traffic, 2> traffic; // by kind, including deregistered regions
    std::atomic<uint64_t> sends, sent_bytes, rnr_naks, retries, errors;
    std::atomic<uint64_t> registrations, dmabuf_registrations;
    std::atomic<uint32_t> regions; // live regions
    uint64_t link_free_at;         // on the model's clock; guarded by State::link
};

inline constexpr size_t kUnit = 32 * 1024;
inline constexpr size_t kUnits = 32768; // 1 GiB, sparse

struct State {
    static constexpr uint32_t kMagic = 0x48434132; // must change with the layout

    std::atomic<uint32_t> magic;
    RobustMutex<Rank::tables> tables;   // places in tables, queue memory
    RobustMutex<Rank::atomics> atomics; // makes RDMA atomics so among all queue pairs
    RobustMutex<Rank::link> link;
    std::atomic<uint32_t> next_pd;
    std::array<DeviceEntry, kMaxDevices> devices;
    Table<ProcessEntry, 256, 24> processes;
    Table<ContextEntry, 1024, 32> contexts;
    Table<ChannelEntry, 1024, 32> channels;
    Table<CqEntry, 2048, 32> cqs;
    Table<SrqEntry, 1024, 32> srqs;
    Table<QpEntry, 4096, 24> qps;  // the id is the queue pair number
    Table<MrEntry, 16384, 31> mrs; // the id is the key
    std::array<uint64_t, kUnits / 64> units_used GAUDI_GUARDED_BY(tables);
};

inline constexpr size_t kQueueMemory = (sizeof(State) + kUnit - 1) / kUnit * kUnit; // offset of the queue memory
inline constexpr size_t kFileBytes = kQueueMemory + kUnits * kUnit;

/// Holds a RobustMutex.
template <class Mutex>
class GAUDI_SCOPED_CAPABILITY Lock {
public:
    explicit Lock(Mutex &mutex) GAUDI_ACQUIRE(mutex) : m_mutex(mutex) {
        (void)m_mutex.lock();
    } // every order of stores is sound
    ~Lock() GAUDI_RELEASE() { m_mutex.unlock(); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    Mutex &m_mutex;
};

} // namespace softhca
