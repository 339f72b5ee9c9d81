// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace softgaudi {
namespace {

using Sentence = tl::unexpected<std::string>;

std::string_view env(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

template <class T> std::optional<T> number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return {};
    return value;
}

/// Calls `take` with each non-empty piece of `text` between separators; stops at the first error.
template <class Take>
tl::expected<void, std::string> split(std::string_view text, char separator, Take take) {
    while (!text.empty()) {
        const size_t cut = text.find(separator);
        const std::string_view piece = text.substr(0, cut);
        text = cut == std::string_view::npos ? "" : text.substr(cut + 1);
        if (piece.empty())
            continue;
        if (auto done = take(piece); !done)
            return done;
    }
    return {};
}

std::optional<int> errno_by_name(std::string_view name) {
    for (int code = 1; code < 134; ++code) {
        const char *known = strerrorname_np(code);
        if (known && name == known)
            return code;
    }
    if (const auto code = number<int>(name); code && *code > 0 && *code < 4096)
        return code;
    return {};
}

bool on_memory(const std::string &dir) {
    struct statfs info{};
    return statfs(dir.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

/// The directory all processes of this user share unless SOFTGAUDI_DIR names another; always memory, never a disk,
/// because a card's DRAM is a sparse file in it.
tl::expected<std::string, std::string> choose_dir() {
    if (const std::string_view named = env("SOFTGAUDI_DIR"); !named.empty()) {
        std::string dir(named);
        struct stat info{};
        if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
            return Sentence(fmt::format("SOFTGAUDI_DIR={}: cannot make it: {}", dir, std::strerror(errno)));
        if (stat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
            return Sentence(fmt::format("SOFTGAUDI_DIR={}: is not a directory", dir));
        if (!on_memory(dir))
            return Sentence(fmt::format("SOFTGAUDI_DIR={}: must be on tmpfs, it holds the cards' memory", dir));
        return dir;
    }
    std::string dir;
    if (const std::string runtime(env("XDG_RUNTIME_DIR")); !runtime.empty() && on_memory(runtime))
        dir = runtime + "/softgaudi";
    else
        dir = fmt::format("/dev/shm/softgaudi-{}", getuid());
    struct stat info{};
    if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
        return Sentence(fmt::format("cannot make {}: {}; name a directory with SOFTGAUDI_DIR", dir,
                                    std::strerror(errno)));
    if (lstat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
        (info.st_mode & 077) != 0)
        return Sentence(fmt::format("{} is not a private directory of this user", dir));
    if (!on_memory(dir))
        return Sentence(fmt::format("{} is not on tmpfs; name one with SOFTGAUDI_DIR", dir));
    return dir;
}

tl::expected<FaultRule, std::string> parse_fault(std::string_view rule) {
    const auto bad = [&](std::string_view why) {
        return Sentence(fmt::format("SOFTGAUDI_FAULTS: '{}': {}", rule, why));
    };
    FaultRule out;
    const size_t equals = rule.find('=');
    if (equals == std::string_view::npos)
        return bad("wants FUNCTION[@CARD][#NTH[+]]=ACTION");
    std::string_view left = rule.substr(0, equals);
    const std::string_view action = rule.substr(equals + 1);

    if (const size_t hash = left.find('#'); hash != std::string_view::npos) {
        std::string_view nth = left.substr(hash + 1);
        left = left.substr(0, hash);
        if (!nth.empty() && nth.back() == '+') {
            out.onwards = true;
            nth.remove_suffix(1);
        }
        const auto count = number<uint64_t>(nth);
        if (!count || *count == 0)
            return bad("the number after '#' counts calls from 1");
        out.first = *count;
    } else {
        out.onwards = true;
    }
    if (const size_t at = left.find('@'); at != std::string_view::npos) {
        const auto card = number<unsigned>(left.substr(at + 1));
        if (!card || *card >= kMaxCards)
            return bad("the number after '@' is a card from 0 to 7");
        out.card = card;
        left = left.substr(0, at);
    }
    if (left.starts_with("hlthunk_"))
        left.remove_prefix(8);
    if (left.empty())
        return bad("names no function");
    out.function = left;

    if (action == "hang") {
        out.action = FaultRule::Action::hang;
    } else if (action == "reset") {
        out.action = FaultRule::Action::reset;
    } else if (action == "lose") {
        out.action = FaultRule::Action::lose;
    } else if (action.starts_with("delay:")) {
        const auto delay = number<uint64_t>(action.substr(6));
        if (!delay)
            return bad("delay wants microseconds");
        out.action = FaultRule::Action::delay;
        out.delay_us = *delay;
    } else if (const auto code = errno_by_name(action)) {
        out.action = FaultRule::Action::fail;
        out.error = *code;
    } else {
        return bad("the action is an errno name, delay:MICROSECONDS, hang, reset or lose");
    }
    return out;
}

} // namespace

tl::expected<Pace, std::string> parse_pace(std::string_view text) {
    constexpr double kSlowestGBps = 1e-6, kLongestUs = 1e9; // what a clock of 64 bits can add up
    Pace pace;
    if (text.empty())
        return pace;
    if (text == "null") {
        pace.mode = Pace::Mode::null;
        return pace;
    }
    pace.mode = Pace::Mode::real;
    std::string_view figures = text;
    if (figures.starts_with("virtual:")) {
        pace.mode = Pace::Mode::virtual_clock;
        figures.remove_prefix(8);
    }
    const auto done = split(figures, ',', [&](std::string_view piece) -> tl::expected<void, std::string> {
        const size_t colon = piece.find(':');
        const auto value = colon == std::string_view::npos ? std::nullopt : number<double>(piece.substr(colon + 1));
        const std::string_view key = piece.substr(0, colon);
        if (!value || !std::isfinite(*value) || *value < 0)
            return Sentence(fmt::format("SOFTGAUDI_PACE: '{}': wants a name and a number, as in down:25", piece));
        const bool rate = key == "down" || key == "up" || key == "card";
        if (rate && *value < kSlowestGBps)
            return Sentence(fmt::format("SOFTGAUDI_PACE: '{}': a link needs at least {} GB/s", piece, kSlowestGBps));
        if (!rate && *value > kLongestUs)
            return Sentence(fmt::format("SOFTGAUDI_PACE: '{}': may cost {} us at most", piece, kLongestUs));
        if (key == "down")
            pace.down_ns_per_byte = 1 / *value; // 1 GB/s is one byte per nanosecond
        else if (key == "up")
            pace.up_ns_per_byte = 1 / *value;
        else if (key == "card")
            pace.card_ns_per_byte = 1 / *value;
        else if (key == "submit")
            pace.submit_ns = static_cast<uint64_t>(*value * 1000);
        else if (key == "map")
            pace.map_ns = static_cast<uint64_t>(*value * 1000);
        else
            return Sentence(fmt::format("SOFTGAUDI_PACE: '{}': knows down, up, card (GB/s), submit, map (us)", key));
        return {};
    });
    if (!done)
        return Sentence(done.error());
    return pace;
}

tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text) {
    std::vector<FaultRule> rules;
    const auto done = split(text, ';', [&](std::string_view piece) -> tl::expected<void, std::string> {
        auto rule = parse_fault(piece);
        if (!rule)
            return Sentence(rule.error());
        rules.push_back(std::move(*rule));
        return {};
    });
    if (!done)
        return Sentence(done.error());
    return rules;
}

tl::expected<Quirks, std::string> parse_quirks(std::string_view text) {
    Quirks quirks;
    const auto done = split(text, ',', [&](std::string_view piece) -> tl::expected<void, std::string> {
        if (piece == "mainline")
            quirks.mainline = true;
        else if (piece == "posted")
            quirks.posted = true;
        else
            return Sentence(fmt::format("SOFTGAUDI_QUIRKS: '{}': knows mainline and posted", piece));
        return {};
    });
    if (!done)
        return Sentence(done.error());
    return quirks;
}

tl::expected<Config, std::string> read_config() {
    Config config;

    const std::string_view model = env("SOFTGAUDI_MODEL");
    if (model.empty() || model == "gaudi2")
        config.model = &gaudi2();
    else if (model == "gaudi3")
        config.model = &gaudi3();
    else
        return Sentence(fmt::format("SOFTGAUDI_MODEL={}: knows gaudi2 and gaudi3", model));

    if (const std::string_view cards = env("SOFTGAUDI_CARDS"); !cards.empty()) {
        const auto count = number<unsigned>(cards);
        if (!count || *count > kMaxCards)
            return Sentence(fmt::format("SOFTGAUDI_CARDS={}: wants a number from 0 to {}", cards, kMaxCards));
        config.cards = *count;
    }

    auto quirks = parse_quirks(env("SOFTGAUDI_QUIRKS"));
    if (!quirks)
        return Sentence(quirks.error());
    config.quirks = *quirks;

    auto pace = parse_pace(env("SOFTGAUDI_PACE"));
    if (!pace)
        return Sentence(pace.error());
    config.pace = *pace;

    auto faults = parse_faults(env("SOFTGAUDI_FAULTS"));
    if (!faults)
        return Sentence(faults.error());
    config.faults = std::move(*faults);

    auto dir = choose_dir();
    if (!dir)
        return Sentence(dir.error());
    config.dir = std::move(*dir);
    return config;
}

} // namespace softgaudi
