// SPDX-License-Identifier: BSD-3-Clause
// The bus of a software card: the effect of the interpreter's accesses on memory, registers and time.
#pragma once

#include "card.h"
#include "interpreter.h"
#include "sync_unit.h"

#include <memory>
#include <vector>

namespace softgaudi {

class CardBus final : public Bus {
public:
    CardBus(Card &card, const Job &job);

    size_t fetch(uint64_t address, std::span<unsigned char> out) override;
    MaybeTrap move(const Transfer &transfer) override;
    MaybeTrap fill(uint64_t destination, uint64_t size, uint64_t value) override;
    MaybeTrap store(uint64_t address, uint64_t value, unsigned size) override;
    MaybeTrap store_own_register(uint32_t offset, uint32_t value) override;
    uint64_t message_base(unsigned base) override;
    MaybeTrap fence(bool lower, unsigned id, uint32_t target, uint32_t decrement) override;
    uint64_t timestamp() override;
    bool cancelled() override { return !m_card.running(m_job); }
    void count_packet() override { ++m_packets; }

    /// Waits until the job may start.
    void begin();
    /// Waits until the modelled links have carried all bytes so far.
    void catch_up();
    uint64_t packets() const { return m_packets; }

private:
    /// A range of device addresses that refers to one thing, and the view that accesses it.
    struct Stretch {
        Place place;
        std::shared_ptr<const Blocks::View> view; // set for a block
    };

    Stretch locate(uint64_t address);
    bool copy_down(PinRing &ring, const Place &from, const Stretch &to, uint64_t size);
    bool copy(const Stretch &from, const Stretch &to, uint64_t size, unsigned swap);
    bool read(const Stretch &from, uint64_t offset, unsigned char *out, size_t size);
    bool write(const Stretch &to, uint64_t offset, const unsigned char *data, size_t size);
    /// What a walk does with the bytes: leaves them to a later walk, or moves and counts them, or counts them as not made.
    enum class Bytes { later, moved, not_made };
    /// Walks a transfer piece by piece: occupies the links, or does what `bytes` says, or both.
    MaybeTrap walk(const Transfer &transfer, bool takes_links, Bytes bytes);
    void count(const Place &from, const Place &to, uint64_t bytes, bool made);
    void take_link(bool reads_host, bool writes_host, uint64_t before, uint64_t bytes);

    Card &m_card;
    const Job &m_job;
    SyncUnit m_sync;
    const Queue m_queue;
    uint64_t m_time; // until when the transfers of this stream occupy the links
    uint64_t m_packets = 0;
    std::vector<unsigned char> m_buffer;
};

} // namespace softgaudi
