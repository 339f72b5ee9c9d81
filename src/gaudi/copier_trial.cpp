// SPDX-License-Identifier: BSD-3-Clause
// The engine tries the card before it trusts it: whether completion words come after their data, on each stream, and
// from which length on it is worth to map host memory.
#include "copier.h"

#include "card.h"
#include "pinned.h"
#include "settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
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

/// What the trial copies between. A submission that does not end keeps all of it.
struct Copier::Trial {
    Trial(Card &card, std::uint64_t length, std::uint32_t first_seed) : memory(card, length), seed(first_seed) {}

    std::uint64_t scratch() const { return memory.address(); }

    const Scratch memory;
    std::vector<std::uint32_t> out = std::vector<std::uint32_t>(kBytes / 4), back = out;
    thunk::Mapping out_map, back_map;
    std::uint32_t seed;
};

/// Whether what each stream has copied is there when its end is seen.
bool Copier::try_all(Channel &channel, Trial &trial) {
    const auto comes_back = [&](std::uint64_t from, std::size_t bytes) {
        std::fill(trial.back.begin(), trial.back.end(), 0);
        return try_copy(channel, Direction::up, from, trial.back_map.get(), bytes) &&
               std::equal(trial.out.begin(), trial.out.begin() + static_cast<std::ptrdiff_t>(bytes / 4),
                          trial.back.begin());
    };
    for (unsigned round = 0; round < 2 * kRounds; ++round) {
        const std::size_t bytes = round % 2 == 0 ? kFew : kBytes; // what is copied last, the engines need
        fill(trial.out, trial.seed += 0x9E3779B9u);
        if (!try_copy(channel, Direction::down, trial.out_map.get(), trial.scratch(), bytes) ||
            !comes_back(trial.scratch(), bytes))
            return false;
    }
    // Each engine within the card takes the next large copy in turn; each writes to a place of its own. The small copies
    // have one more stream.
    const unsigned engines = lane_of(Direction::on_card, kBytes).count;
    for (unsigned i = 0; i <= engines; ++i) {
        const std::size_t bytes = i < engines ? kBytes / 2 : kFew;
        const std::uint64_t place = trial.scratch() + (1 + i) * kBytes;
        if (!try_copy(channel, Direction::on_card, trial.scratch(), place, bytes) || !comes_back(place, bytes))
            return false;
    }
    return true;
}

/// Nothing public promises that the word is written after the data has arrived: see whether this card does it. And nothing
/// promises that it takes submissions beside somebody else's.
Result<void> Copier::try_out(bool words) {
    const bool theirs = m_card.adopted();
    const auto unable = [&](const std::string &why) -> Result<void> {
        return tl::unexpected(thunk::make_error(
            ENOTSUP, "copy", m_card.bus_id(),
            fmt::format("the card belongs to somebody else in this process, and copies beside them {}", why)));
    };
    // What is ours may be used untried; then the driver is asked for ends.
    const auto untried = [&](const char *why) { return theirs ? unable(why) : Result<void>(); };
    const auto trial = std::make_shared<Trial>(m_card, (2 + lane_of(Direction::on_card, kBytes).count) * kBytes,
                                               static_cast<std::uint32_t>(now_ns()));
    if (!trial->memory)
        return untried("cannot be tried: they left no memory on it");
    const std::uint64_t begin = now_ns();
    auto out_map = thunk::map_host(m_device, trial->out.data(), kBytes);
    const std::uint64_t mapped = now_ns();
    std::copy(trial->out.begin(), trial->out.end(), trial->back.begin());
    const std::uint64_t copied = now_ns();
    m_worth_mapping =
        std::clamp((mapped - begin) * kBytes / std::max<std::uint64_t>(1, copied - mapped), kLeastMapped, kMostStaged);
    auto back_map = thunk::map_host(m_device, trial->back.data(), kBytes);
    if (!out_map || !back_map)
        return untried("cannot be tried: host memory cannot be mapped");
    trial->out_map = std::move(*out_map);
    trial->back_map = std::move(*back_map);

    Channel channel;
    const auto arrives = [&] {
        // One refused submission says nothing about what arrives: the trial is made again.
        return try_all(channel, *trial) || (problem().number != 0 && !failed() && try_all(channel, *trial));
    };
    m_flags = theirs ? std::uint32_t{HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT} : 0u; // it is their card that would be reset
    m_words_hold = words;
    m_proven = arrives();
    m_words_hold = words && m_proven;
    if (words && !m_proven && !failed())
        m_proven = arrives(); // by the driver's word alone
    m_flags = 0;
    if (m_proven) {
        const std::lock_guard guard(m_failure_mutex);
        m_problem = LastProblem(); // no user's copy failed
        return {};
    }
    if (abandoned() != 0)
        Pinned::get().keep(trial);
    if (theirs)
        return unable(problem().number != 0 ? "fail: " + problem().text : "do not arrive");
    if (abandoned() != 0)
        return {}; // an engine that takes no copies: to try again would leave more behind
    return tl::unexpected(thunk::make_error(EIO, "self-test", m_card.bus_id(),
                                            problem().number != 0 ? problem().text : "copies do not arrive"));
}

} // namespace gaudi
