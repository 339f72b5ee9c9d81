// SPDX-License-Identifier: BSD-3-Clause
#include "uring.h"

#include "os/system_call.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

namespace softgaudi {
namespace {

using gaudi::os::system_call;

constexpr unsigned kEntries = 4; // one is in use at a time
constexpr unsigned kRegister = IORING_REGISTER_BUFFERS2, kUpdate = IORING_REGISTER_BUFFERS_UPDATE;

uint32_t load(uint32_t *counter) { return std::atomic_ref(*counter).load(std::memory_order_acquire); }
void store(uint32_t *counter, uint32_t value) { std::atomic_ref(*counter).store(value, std::memory_order_release); }

bool is_retried(int error) { return error == EINTR || error == EAGAIN || error == EBUSY; }

} // namespace

void unmap_unhooked(void *memory, size_t size) { system_call(SYS_munmap, memory, size); }

std::optional<Uring> Uring::create(io_uring_params &params, const char *&call) {
    params = {};
    call = "io_uring_setup";
    Uring ring(File(static_cast<int>(system_call(SYS_io_uring_setup, kEntries, &params)))); // close-on-exec
    if (!ring.m_file || !ring.map(params))
        return {};
    call = "io_uring_register";
    io_uring_rsrc_register table{};
    table.nr = kSlots;
    table.flags = IORING_RSRC_REGISTER_SPARSE;
    if (system_call(SYS_io_uring_register, ring.file(), kRegister, &table, sizeof table) < 0)
        return {};
    return ring;
}

std::optional<Uring> Uring::adopt(File file, const io_uring_params &params) {
    Uring ring(std::move(file));
    if (!ring.map(params))
        return {};
    return ring;
}

bool Uring::map(const io_uring_params &params) {
    if ((params.features & IORING_FEAT_SINGLE_MMAP) == 0) { // before Linux 5.4, and so without a sparse table
        errno = ENOSYS;
        return false;
    }
    const auto map_area = [&](size_t size, uint64_t offset) -> unsigned char * {
        void *area =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file(), static_cast<off_t>(offset));
        return area == MAP_FAILED ? nullptr : static_cast<unsigned char *>(area);
    };
    m_rings_size = std::max<size_t>(params.sq_off.array + params.sq_entries * sizeof(uint32_t),
                                    params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
    m_entries_size = params.sq_entries * sizeof(io_uring_sqe);
    m_rings = map_area(m_rings_size, IORING_OFF_SQ_RING);
    if (!m_rings)
        return false;
    m_entries = reinterpret_cast<io_uring_sqe *>(map_area(m_entries_size, IORING_OFF_SQES));
    if (!m_entries)
        return false;
    const auto word = [&](uint32_t offset) { return reinterpret_cast<uint32_t *>(m_rings + offset); };
    m_head = word(params.sq_off.head);
    m_tail = word(params.sq_off.tail);
    m_mask = *word(params.sq_off.ring_mask);
    m_indices = word(params.sq_off.array);
    m_done_head = word(params.cq_off.head);
    m_done_tail = word(params.cq_off.tail);
    m_done_mask = *word(params.cq_off.ring_mask);
    m_done = reinterpret_cast<io_uring_cqe *>(m_rings + params.cq_off.cqes);
    return true;
}

Uring::~Uring() {
    if (m_entries)
        unmap_unhooked(m_entries, m_entries_size);
    if (m_rings)
        unmap_unhooked(m_rings, m_rings_size);
}

Uring::Uring(Uring &&other) noexcept
    : m_file(std::move(other.m_file)), m_rings(std::exchange(other.m_rings, nullptr)), m_rings_size(other.m_rings_size),
      m_entries(std::exchange(other.m_entries, nullptr)), m_entries_size(other.m_entries_size), m_head(other.m_head),
      m_tail(other.m_tail), m_indices(other.m_indices), m_done_head(other.m_done_head), m_done_tail(other.m_done_tail),
      m_mask(other.m_mask), m_done_mask(other.m_done_mask), m_done(other.m_done) {}

int Uring::update(uint32_t slot, uint64_t address, uint64_t size) {
    const iovec buffer{reinterpret_cast<void *>(address), size};
    io_uring_rsrc_update2 change{};
    change.offset = slot;
    change.data = reinterpret_cast<uint64_t>(&buffer);
    change.nr = 1;
    while (system_call(SYS_io_uring_register, file(), kUpdate, &change, sizeof change) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

long Uring::transfer(bool to_file, uint32_t slot, uint64_t address, size_t size, int file, uint64_t offset,
                     uint64_t ticket) {
    const uint32_t tail = load(m_tail), index = tail & m_mask;
    io_uring_sqe entry{};
    entry.opcode = to_file ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
    entry.fd = file;
    entry.off = offset;
    entry.addr = address;
    entry.len = static_cast<uint32_t>(size);
    entry.buf_index = static_cast<uint16_t>(slot);
    entry.user_data = ticket;
    m_entries[index] = entry;
    m_indices[index] = index;
    store(m_tail, tail + 1);
    const auto enter = [&](unsigned submitted) {
        return system_call(SYS_io_uring_enter, this->file(), submitted, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    };
    while (enter(1) < 0) {
        if (!is_retried(errno)) {
            const int error = errno;
            store(m_tail, tail);
            return -error;
        }
    }
    for (;;) {
        for (uint32_t head = load(m_done_head); head != load(m_done_tail);) {
            const io_uring_cqe done = m_done[head & m_done_mask];
            store(m_done_head, ++head);
            if (done.user_data == ticket) // others are of callers that died
                return done.res;
        }
        if (enter(0) < 0 && !is_retried(errno))
            return -errno;
    }
}

/// The kernel reads the queue only inside enter(), so an entry that was not submitted is simply taken back.
void Uring::recover() { store(m_tail, load(m_head)); }

} // namespace softgaudi
