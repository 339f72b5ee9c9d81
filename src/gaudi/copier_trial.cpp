// SPDX-License-Identifier: BSD-3-Clause
// The engine tries the card before it trusts it: whether completion words come after their data, on each stream, and
// from which length on it is worth to map host memory.
#include "copier.h"

#include "card.h"
#include "settings.h"

#include <algorithm>
#include <cerrno>
#include <vector>

namespace gaudi {
namespace {

constexpr std::size_t kBytes = 256 << 10; // on the streams of large copies
constexpr std::size_t kFew = 64 << 10;    // and of small ones
constexpr unsigned kRounds = 4;           // of each

/// Device memory until the trial is over.
class Scratch {
public:
    Scratch(Card &card, std::uint64_t length)
        : m_card(card), m_address(card.arena().allocate(
                            {.length = length, .limit = settings().max_memory.load(std::memory_order_relaxed)})) {}
    ~Scratch() {
        if (m_address)
            m_card.arena().free(*m_address);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    explicit operator bool() const { return m_address.has_value(); }
    std::uint64_t address() const { return *m_address; }

private:
    Card &m_card;
    const Result<std::uint64_t> m_address;
};

/// Numbers that no earlier trial, of this process or another, has left in the card's memory.
void fill(std::vector<std::uint32_t> &numbers, std::uint32_t seed) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::uint32_t>(i * 2654435761u) ^ seed;
}

} // namespace

/// One copy, waited for.
bool Copier::try_copy(Channel &channel, Direction direction, std::uint64_t source, std::uint64_t destination,
                      std::size_t length) {
    Transfer *transfer = channel.take();
    int error = 0;
    transfer->source = source;
    transfer->destination = destination;
    transfer->length = length;
    transfer->user = &error;
    transfer->done = [](Transfer &ended) { *static_cast<int *>(ended.user) = ended.error; };
    post(direction, *transfer);
    while (channel.outstanding() != 0) {
        progress();
        channel.dispatch();
    }
    return error == 0;
}

/// Nothing public promises that the word is written after the data has arrived: see whether this card does it.
Result<void> Copier::test_words() {
    const unsigned engines = lane_of(Direction::on_card, kBytes).count;
    // Where there is no memory to try it with, the driver is asked.
    const Scratch scratch(m_card, (2 + engines) * kBytes);
    if (!scratch)
        return {};
    std::vector<std::uint32_t> out(kBytes / 4), back(kBytes / 4);
    const std::uint64_t begin = now_ns();
    auto out_map = thunk::map_host(m_device, out.data(), kBytes);
    const std::uint64_t mapped = now_ns();
    std::copy(out.begin(), out.end(), back.begin());
    const std::uint64_t copied = now_ns();
    m_worth_mapping =
        std::clamp((mapped - begin) * kBytes / std::max<std::uint64_t>(1, copied - mapped), kLeastMapped, kMostStaged);
    auto back_map = thunk::map_host(m_device, back.data(), kBytes);
    if (!out_map || !back_map)
        return {};
    m_words_hold = true;

    Channel channel;
    const auto comes_back = [&](std::uint64_t from, std::size_t bytes) {
        std::fill(back.begin(), back.end(), 0);
        return try_copy(channel, Direction::up, from, back_map->get(), bytes) &&
               std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes / 4), back.begin());
    };
    bool in_order = true;
    for (unsigned round = 0; round < 2 * kRounds && in_order; ++round) {
        const std::size_t bytes = round % 2 == 0 ? kFew : kBytes; // what is copied last, the engines need
        fill(out, static_cast<std::uint32_t>(begin) + round * 0x9E3779B9u);
        in_order = try_copy(channel, Direction::down, out_map->get(), scratch.address(), bytes) &&
                   comes_back(scratch.address(), bytes);
    }
    // Each engine within the card takes the next large copy in turn; each writes to a place of its own. The small copies
    // have one more stream.
    for (unsigned i = 0; i <= engines && in_order; ++i) {
        const std::size_t bytes = i < engines ? kBytes / 2 : kFew;
        const std::uint64_t place = scratch.address() + (1 + i) * kBytes;
        in_order = try_copy(channel, Direction::on_card, scratch.address(), place, bytes) && comes_back(place, bytes);
    }
    if (failed())
        return tl::unexpected(thunk::make_error(EIO, "self-test", m_card.bus_id(), failure()));
    m_words_hold = in_order;
    return {};
}

} // namespace gaudi
