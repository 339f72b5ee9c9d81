// SPDX-License-Identifier: BSD-3-Clause
// Many copies posted by one call. Neighbours in the list mostly lie in the same two ranges (a mapping of device memory and
// a registered host range, or two mappings of one card): both are found once, and the copies go to the engine together.
#pragma once

#include "mover.h"

#include <cstdint>

namespace gaudi {

class CopySeries {
public:
    /// `done` is called with `user` at the end of each copy.
    CopySeries(Mover &mover, Mover::Done done, void *user) : m_mover(mover), m_done(done), m_user(user) {}
    ~CopySeries() { close(); }
    CopySeries(const CopySeries &) = delete;
    CopySeries &operator=(const CopySeries &) = delete;

    /// Adds a copy that lies in the ranges of the one before it; false for any other. It is started by a later call, at
    /// the latest by the destructor.
    bool add(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range) {
        if (!m_engine || range != m_range || !m_destination.contains(destination, length) ||
            !m_source.contains(source, length)) [[unlikely]]
            return false;
        append(destination, source, length);
        return true;
    }
    /// Adds a copy with ranges of its own: as Mover::post.
    Result<Mover::Posted> add_elsewhere(std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                                        HostRange *range);

private:
    static constexpr unsigned kTogether = 64; // the packets of one submission

    /// One end: a range that the card sees at another place.
    struct End {
        std::uint64_t begin = 0, length = 0;
        std::uint64_t shift = 0; // from an address to what the card calls it

        bool contains(std::uint64_t address, std::uint64_t bytes) const {
            const std::uint64_t offset = address - begin;
            return offset < length && bytes <= length - offset;
        }
    };

    bool open(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range);
    void append(std::uint64_t destination, std::uint64_t source, std::uint64_t length);
    void flush();
    void close();

    Mover &m_mover;
    const Mover::Done m_done;
    void *const m_user;
    // ---- while it is open; the range is then held
    Engine *m_engine = nullptr;
    HostRange *m_range = nullptr; // null where both ends are on the card
    HostRange::Copies *m_copies = nullptr;
    End m_destination, m_source;
    Direction m_direction = Direction::down;
    Path m_path = Path::down;
    bool m_flush = false;
    // ---- copies that were not given to the engine yet
    Transfer *m_first = nullptr, *m_last = nullptr;
    unsigned m_count = 0;
};

} // namespace gaudi
