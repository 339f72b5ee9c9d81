// SPDX-License-Identifier: BSD-3-Clause
// The self-test of a card before its first copy: whether copies arrive, whether the completion flag of each stream comes
// after the data, and from which length on it is worth to map host memory.
#include "cs_engine.h"

#include "gaudi/card/settings.h"
#include "gaudi/host/host_memory.h"
#include "gaudi/memory/arena.h"
#include "os/format.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace gaudi {
namespace {

constexpr std::size_t kBytes = 256 << 10; // for the streams of large copies
constexpr std::size_t kFew = 64 << 10;    // and for those of small ones
constexpr unsigned kRounds = 4;           // of each
constexpr const char *kSelfTest = "self-test";

/// Device memory for the self-test.
class Scratch {
public:
    Scratch(Session &session, std::uint64_t length)
        : m_arena(session.get<Arena>()),
          m_address(m_arena.allocate({.length = length, .limit = settings().max_memory.value})) {}
    ~Scratch() {
        if (m_address)
            m_arena.free(*m_address);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    const Result<std::uint64_t> &address() const { return m_address; }

private:
    Arena &m_arena;
    const Result<std::uint64_t> m_address;
};

/// Fills in numbers that no earlier self-test, of this process or another, has left in the card's memory.
void fill(std::vector<std::uint32_t> &numbers, std::uint32_t seed) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::uint32_t>(i * 2654435761u) ^ seed;
}

} // namespace

/// The buffers of the self-test. A submission that does not end keeps all of them.
struct CsEngine::SelfTest {
    SelfTest(Session &session, std::uint64_t length, std::uint32_t first_seed)
        : memory(session, length), seed(first_seed) {}

    std::uint64_t scratch() const { return *memory.address(); }

    const Scratch memory;
    std::vector<std::uint32_t> out = std::vector<std::uint32_t>(kBytes / 4), back = out;
    thunk::Mapping out_map, back_map;
    std::uint32_t seed;
};

/// One copy, waited for.
Failure CsEngine::test_copy(Channel &channel, Direction direction, std::uint64_t source, std::uint64_t destination,
                            std::size_t length) {
    Transfer *transfer = channel.take();
    Failure failure;
    transfer->source = source;
    transfer->destination = destination;
    transfer->length = length;
    transfer->user = &failure;
    transfer->done = [](Transfer &ended) { *static_cast<Failure *>(ended.user) = ended.failure; };
    post(direction, *transfer);
    while (channel.outstanding() != 0) {
        progress();
        channel.dispatch();
    }
    return failure;
}

unsigned CsEngine::dma_engines() {
    const os::MutexLock lock(m_mutex);
    return lane_of(Direction::on_card, kBytes).count;
}

/// Whether the bytes of each stream's copy have arrived when its end is seen; null if so.
Failure CsEngine::test_all(Channel &channel, SelfTest &test) {
    const auto check_back = [&](std::uint64_t from, std::size_t bytes) -> Failure {
        std::fill(test.back.begin(), test.back.end(), 0);
        if (Failure failure = test_copy(channel, Direction::up, from, test.back_map.get(), bytes))
            return failure;
        if (std::equal(test.out.begin(), test.out.begin() + static_cast<std::ptrdiff_t>(bytes / 4), test.back.begin()))
            return nullptr;
        return std::make_shared<const Error>(
            thunk::make_error(EIO, kSelfTest, m_session.card().bus_id(),
                              "copies do not arrive, or arrive with other bytes; reset the card"));
    };
    for (unsigned round = 0; round < 2 * kRounds; ++round) {
        const std::size_t bytes = round % 2 == 0 ? kFew : kBytes; // the last copy is the source of those below
        fill(test.out, test.seed += 0x9E3779B9u);
        if (Failure failure = test_copy(channel, Direction::down, test.out_map.get(), test.scratch(), bytes))
            return failure;
        if (Failure failure = check_back(test.scratch(), bytes))
            return failure;
    }
    // Each DMA engine within the card takes the next large copy in turn; each writes to a place of its own. The small
    // copies have one more stream.
    const unsigned engines = dma_engines();
    for (unsigned i = 0; i <= engines; ++i) {
        const std::size_t bytes = i < engines ? kBytes / 2 : kFew;
        const std::uint64_t place = test.scratch() + (1 + i) * kBytes;
        if (Failure failure = test_copy(channel, Direction::on_card, test.scratch(), place, bytes))
            return failure;
        if (Failure failure = check_back(place, bytes))
            return failure;
    }
    return nullptr;
}

/// Nothing public promises that the completion flag is written after the data has arrived, nor that the card takes
/// submissions beside those of a framework: see whether this card does both.
Result<void> CsEngine::test_card(bool flags) {
    const Card &card = m_session.card();
    const bool shared = m_session.adopted();
    const auto unable = [&](const std::string &why) -> Result<void> {
        return tl::unexpected(thunk::make_error(ENOTSUP, "copy", card.bus_id(), why));
    };
    const auto test =
        std::make_shared<SelfTest>(m_session, (2 + dma_engines()) * kBytes, static_cast<std::uint32_t>(now_ns()));
    // An own card may be used untested; the driver is asked for ends then.
    if (!test->memory.address())
        return shared ? unable(os::format(
                            "card {} is shared with the program that opened it, which holds all of its memory: "
                            "the DMA self-test has none to run in",
                            card.number()))
                      : Result<void>();
    const std::uint64_t begin = now_ns();
    auto out_map = thunk::map_host(m_device, test->out.data(), kBytes);
    const std::uint64_t mapped = now_ns();
    std::copy(test->out.begin(), test->out.end(), test->back.begin());
    const std::uint64_t copied = now_ns();
    // Measured here, because drivers and IOMMUs differ by far.
    m_worth_mapping =
        std::clamp((mapped - begin) * kBytes / std::max<std::uint64_t>(1, copied - mapped), kLeastMapped, kMostStaged);
    auto back_map = thunk::map_host(m_device, test->back.data(), kBytes);
    if (!out_map || !back_map)
        return shared
                   ? unable(os::format("card {} is shared with the program that opened it, and host memory for the DMA "
                                       "self-test cannot be mapped: {}",
                                       card.number(), (out_map ? back_map : out_map).error().text))
                   : Result<void>();
    test->out_map = std::move(*out_map);
    test->back_map = std::move(*back_map);

    Channel channel;
    const auto run = [&] {
        Failure failure = test_all(channel, *test);
        // One refused submission says nothing about the card: the test is made again.
        const bool refused = failure && std::string_view(failure->call) != kSelfTest;
        return refused && !failed() ? test_all(channel, *test) : failure;
    };
    // The framework's card must not be reset by a test that hangs.
    set_submit_flags(shared ? std::uint32_t{HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT} : 0u);
    m_use_flags.store(flags, std::memory_order_relaxed);
    Failure failure = run();
    m_use_flags.store(flags && !failure, std::memory_order_relaxed);
    if (flags && failure && !failed())
        failure = run(); // the driver is asked for ends
    set_submit_flags(0);
    if (!failure)
        return {};
    if (abandoned() != 0)
        HostMemory::get().keep(test);
    if (shared)
        return unable(os::format("card {} is shared with the program that opened it, and the DMA self-test failed: {}",
                                 card.number(), failure->text));
    if (abandoned() != 0)
        return {}; // an engine that takes no copies: another test would abandon more
    return tl::unexpected(*failure);
}

void CsEngine::set_submit_flags(std::uint32_t flags) {
    const os::MutexLock lock(m_mutex);
    m_submit_flags = flags;
}

} // namespace gaudi
