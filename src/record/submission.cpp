// SPDX-License-Identifier: BSD-3-Clause
#include "submission.h"

#include "host_ranges.h"
#include "packets.h"
#include "writer.h"

namespace gaudi::record {
namespace {

/// The command buffers of a submission, those that others call among them.
class Sources {
public:
    explicit Sources(std::uint64_t node) : m_node(node) {}

    void add_chunks(const hl_cs_chunk *chunks, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i)
            add(chunks[i].cb_handle, chunks[i].cb_size,
                (chunks[i].cs_chunk_flags & HL_CS_CHUNK_FLAGS_USER_ALLOC_CB) != 0);
        // Nested command buffers follow; each may bring further ones.
        for (std::size_t i = 0; i < m_count; ++i)
            if (m_sources[i].host)
                for_each_packet(m_sources[i].host, m_sources[i].length, [&](const Packet &packet, std::size_t offset) {
                    if (packet.opcode() != Packet::cp_dma)
                        return;
                    std::uint64_t address = 0;
                    std::memcpy(&address, m_sources[i].host + offset + 8, sizeof address);
                    add(address, packet.word, true);
                });
    }
    std::size_t pieces() const { return m_count; }
    std::size_t bytes() const {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < m_count; ++i)
            sum += piece_size(m_sources[i].host ? m_sources[i].length : 0);
        return sum;
    }
    void write(PieceWriter &pieces) const {
        for (std::size_t i = 0; i < m_count; ++i) {
            const Source &source = m_sources[i];
            if (source.host)
                pieces.add(PieceKind::packets, 0, source.address, source.host, source.length);
            else
                pieces.add(PieceKind::missing, 0, source.address, nullptr, 0);
        }
    }

private:
    struct Source {
        std::uint64_t address;
        const char *host; // null: the packets are out of reach
        std::uint32_t length;
    };

    void add(std::uint64_t address, std::uint32_t length, bool is_address) {
        for (std::size_t i = 0; i < m_count; ++i)
            if (m_sources[i].address == address && m_sources[i].length >= length)
                return;
        if (m_count == kMost)
            return;
        const char *host =
            is_address && length <= kMostPacketBytes - m_total ? find_host_memory(m_node, address, length) : nullptr;
        m_total += host ? length : 0;
        m_sources[m_count++] = {address, host, length};
    }

    static constexpr std::size_t kMost = 128;
    const std::uint64_t m_node;
    std::size_t m_count = 0, m_total = 0;
    Source m_sources[kMost];
};

} // namespace

void store_submission(std::uint64_t node, const void *restore, std::uint32_t restore_count, const void *execute,
                      std::uint32_t execute_count) noexcept {
    // Counts that the driver refuses are stored with the call alone.
    if (!restore || restore_count > HL_MAX_JOBS_PER_CS)
        restore_count = 0;
    if (!execute || execute_count > HL_MAX_JOBS_PER_CS)
        execute_count = 0;
    if (restore_count + execute_count == 0)
        return;
    Sources sources(node);
    sources.add_chunks(static_cast<const hl_cs_chunk *>(restore), restore_count);
    sources.add_chunks(static_cast<const hl_cs_chunk *>(execute), execute_count);
    const std::size_t restore_bytes = restore_count * sizeof(hl_cs_chunk);
    const std::size_t execute_bytes = execute_count * sizeof(hl_cs_chunk);
    Record *record = reserve(sizeof(Record) + piece_size(restore_bytes) + piece_size(execute_bytes) + sources.bytes(),
                             Kind::packets);
    if (!record)
        return;
    record->start_ns = record->end_ns = now_ns();
    record->node = node;
    record->pieces = static_cast<std::uint16_t>(2 + sources.pieces());
    PieceWriter pieces(reinterpret_cast<char *>(record + 1));
    pieces.add(PieceKind::chunks_restore, 0, 0, restore, restore_bytes);
    pieces.add(PieceKind::chunks_execute, 0, 0, execute, execute_bytes);
    sources.write(pieces);
    commit(*record);
}

} // namespace gaudi::record
