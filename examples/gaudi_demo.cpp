// SPDX-License-Identifier: BSD-3-Clause
// Shows the cards of this machine and copies through each of them, with libhl-thunk alone. Only the version string of
// the library, which it prints, tells a software card from a real one. With --json it prints the same as JSON.
#include "grouped.h"
#include "os/format.h"
#include "thunk/owners.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using namespace gaudi::thunk;

constexpr std::size_t kBytes = 64 << 20;
constexpr std::uint32_t kQueueDown = 0; // host to card on a Gaudi2
constexpr std::uint32_t kQueueUp = 4;   // card to host

/// Prints the error and exits.
template <class T>
T get(Result<T> result) {
    if (!result) {
        gaudi::os::print(stderr, "gaudi_demo: {}\n", result.error().text);
        std::exit(1);
    }
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

struct Seen {
    int node; // /dev/accel/accelN
    std::string bus_id;
    hlthunk_hw_ip_info info;
    bool in_use;

    const char *name() const { return reinterpret_cast<const char *>(info.card_name); }
};

/// Uses control nodes only: opening a card would take it from its user.
std::vector<Seen> discover(const Library &library) {
    std::vector<Seen> cards;
    for (int node = 0; node < 256; ++node) {
        const auto control = DeviceFd::open_control(library, node);
        if (!control)
            continue;
        cards.push_back({node, get(control->get().bus_id()), get(control->get().hw_ip()),
                         get(control->get().open_stats()).is_compute_ctx_active != 0});
    }
    return cards;
}

void print_cards(const std::vector<Seen> &cards) {
    gaudi::os::print(stdout, "{:>4}  {:<7} {:<13} {:<8} {:>12} {:>12}  {}\n", "card", "node", "bus id", "name", "DRAM",
                     "SRAM", "state");
    for (const Seen &card : cards)
        gaudi::os::print(stdout, "{:>4}  {:<7} {:<13} {:<8} {:>12} {:>12}  {}\n", card.info.module_id,
                         gaudi::os::format("accel{}", card.node), card.bus_id, card.name(),
                         gaudi::os::format("{} MB", grouped(card.info.dram_size >> 20)),
                         gaudi::os::format("{} KB", grouped(card.info.sram_size >> 10)),
                         card.in_use ? "in use" : "free");
}

/// One linear copy packet in a command buffer in host memory.
class Copier {
public:
    explicit Copier(const Device &device) : m_device(device), m_commands(4096 / sizeof(std::uint64_t)) {
        m_mapping = get(map_host(device, m_commands.data(), 4096));
    }

    /// Returns the seconds that the copy took.
    double copy(std::uint32_t queue, std::uint64_t source, std::uint64_t destination, std::uint32_t size) {
        constexpr std::uint64_t kLinearDma = 0x09000000ull << 32;
        m_commands[0] = kLinearDma | size;
        m_commands[1] = source;
        m_commands[2] = destination;
        hl_cs_chunk chunk{};
        chunk.cb_handle = m_mapping.get();
        chunk.queue_index = queue;
        chunk.cb_size = 24;
        chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
        const auto start = std::chrono::steady_clock::now();
        const std::uint64_t sequence = get(m_device.submit(std::span(&chunk, 1)));
        while (get(m_device.wait(sequence, std::chrono::seconds(1))) == Wait::busy) {
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

private:
    Device m_device;
    std::vector<std::uint64_t> m_commands;
    Mapping m_mapping;
};

/// Copies of kBytes through a card, in bytes per second.
struct Copies {
    double down = 0, up = 0;
    bool correct = false;
};

Copies copy_through(const Library &library, const Seen &card, std::vector<std::uint32_t> &out,
                    std::vector<std::uint32_t> &back) {
    const DeviceFd opened = get(DeviceFd::open(library, card.bus_id));
    const Device &device = opened.get();
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<std::uint32_t>(i * 2654435761u) + card.info.module_id;
    std::fill(back.begin(), back.end(), 0);

    Allocation allocation = get(allocate(device, kBytes));
    Mapping memory = get(map_device(allocation));
    Mapping source = get(map_host(device, out.data(), kBytes));
    Mapping destination = get(map_host(device, back.data(), kBytes));
    Copier copier(device);
    copier.copy(kQueueDown, source.get(), memory.get(), kBytes); // warms up the memory before the measurement
    const double down = copier.copy(kQueueDown, source.get(), memory.get(), kBytes);
    const double up = copier.copy(kQueueUp, memory.get(), destination.get(), kBytes);
    return {kBytes / down, kBytes / up, out == back};
}

void print_copies(const Seen &card, const Copies &copies) {
    gaudi::os::print(stdout, "{:>4} {:>12.1f} GB/s {:>12.1f} GB/s   {}\n", card.info.module_id, copies.down / 1e9,
                     copies.up / 1e9, copies.correct ? "every byte arrived" : "BYTES DIFFER");
    std::fflush(stdout);
}

nlohmann::ordered_json describe(const Seen &card, const Copies &copies) {
    return {
        {"card", card.info.module_id},
        {"node", gaudi::os::format("accel{}", card.node)},
        {"bus_id", card.bus_id},
        {"name", card.name()},
        {"dram_bytes", card.info.dram_size},
        {"sram_bytes", card.info.sram_size},
        {"in_use", card.in_use},
        {"copied_bytes", kBytes},
        {"host_to_card_bytes_per_s", copies.down},
        {"card_to_host_bytes_per_s", copies.up},
        {"correct", copies.correct},
    };
}

} // namespace

int main(int argc, char **argv) {
    const bool json = argc == 2 && argv[1] == std::string_view("--json");
    if (argc > 1 && !json) {
        gaudi::os::print(stderr, "usage: gaudi_demo [--json]\n");
        return 2;
    }
    const Library &library = *get(Library::find());
    const std::string version = library.version().value_or("unknown");
    const bool software = version.find("softgaudi") != std::string::npos;
    const std::vector<Seen> cards = discover(library);
    if (!json) {
        gaudi::os::print(stdout, "libhl-thunk {}{}\n\n", version,
                         software ? "  (SOFTWARE: no Gaudi card is involved)" : "");
        print_cards(cards);
    }
    if (cards.empty()) {
        gaudi::os::print(stderr, "gaudi_demo: no card\n");
        return 1;
    }

    std::vector<std::uint32_t> out(kBytes / 4), back(kBytes / 4);
    if (!json)
        gaudi::os::print(stdout,
                         "\ncopies of {} MiB, host to card and back, checked byte by byte{}\n{:>4} {:>17} {:>17}\n",
                         kBytes >> 20, software ? " (in software)" : "", "card", "host to card", "card to host");
    bool good = true;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Seen &card : cards) {
        const Copies copies = copy_through(library, card, out, back);
        good = copies.correct && good;
        if (json)
            rows.push_back(describe(card, copies));
        else
            print_copies(card, copies);
    }

    const auto start = std::chrono::steady_clock::now();
    std::memcpy(back.data(), out.data(), kBytes);
    const double plain = kBytes / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (json)
        gaudi::os::print(
            stdout, "{}\n",
            nlohmann::ordered_json{
                {"library", version}, {"software", software}, {"cards", rows}, {"memcpy_bytes_per_s", plain}}
                .dump());
    else
        gaudi::os::print(stdout, "\nmemcpy of the same bytes on this machine: {:.1f} GB/s\n", plain / 1e9);
    return good ? 0 : 1;
}
