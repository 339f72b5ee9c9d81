// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include "functions.h"

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

namespace softhca {
namespace {

using Sentence = tl::unexpected<std::string>;

std::string_view env(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

template <class T>
std::optional<T> number(std::string_view text) {
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
    if (name == "ENOTSUPP")
        return 524; // the kernel's own, which some drivers leak
    if (const auto code = number<int>(name); code && *code > 0 && *code < 4096)
        return code;
    return {};
}

bool on_memory(const std::string &dir) {
    struct statfs info {};
    return statfs(dir.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

/// A directory under the user's runtime directory or, where that is none, under /dev/shm.
std::string default_dir(std::string_view name) {
    if (const std::string runtime(env("XDG_RUNTIME_DIR")); !runtime.empty() && on_memory(runtime))
        return fmt::format("{}/{}", runtime, name);
    return fmt::format("/dev/shm/{}-{}", name, getuid());
}

tl::expected<std::string, std::string> choose_dir() {
    const std::string_view named = env("SOFTHCA_DIR");
    const std::string dir = named.empty() ? default_dir("softhca") : std::string(named);
    const std::string label = named.empty() ? dir : fmt::format("SOFTHCA_DIR={}", named);
    struct stat info {};
    if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
        return Sentence(fmt::format("{}: cannot make it: {}", label, std::strerror(errno)));
    if (stat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return Sentence(fmt::format("{}: is not a directory", label));
    if (named.empty() && (info.st_uid != getuid() || (info.st_mode & 077) != 0))
        return Sentence(fmt::format("{}: is not a private directory of this user", label));
    if (!on_memory(dir))
        return Sentence(fmt::format("{}: must be on tmpfs, processes meet in its memory", label));
    return dir;
}

tl::expected<FaultRule, std::string> parse_fault(std::string_view rule) {
    const auto bad = [&](std::string_view why) { return Sentence(fmt::format("SOFTHCA_FAULTS: '{}': {}", rule, why)); };
    FaultRule out;
    const size_t equals = rule.find('=');
    if (equals == std::string_view::npos)
        return bad("wants FUNCTION[@DEVICE][#NTH[+]]=ACTION");
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
        const auto device = number<unsigned>(left.substr(at + 1));
        if (!device || *device >= kMaxDevices)
            return bad("the number after '@' is a device from 0 to 3");
        out.device = device;
        left = left.substr(0, at);
    }
    if (left.starts_with("ibv_"))
        left.remove_prefix(4);
    if (!function_index(left))
        return bad("there is no such function to strike");
    out.function = left;

    using Action = FaultRule::Action;
    if (action == "link_down") {
        out.action = Action::link_down;
    } else if (action == "link_up") {
        out.action = Action::link_up;
    } else if (action == "device_fatal") {
        out.action = Action::device_fatal;
    } else if (action == "qp_error") {
        if (left != "post_send" && left != "post_recv")
            return bad("only post_send and post_recv have a queue pair to break");
        out.action = Action::qp_error;
    } else if (action.starts_with("limit:")) {
        const auto limit = number<uint64_t>(action.substr(6));
        if (!limit || (left != "reg_mr" && left != "reg_dmabuf_mr"))
            return bad("limit:COUNT is for reg_mr and reg_dmabuf_mr");
        out.action = Action::limit;
        out.limit = *limit;
    } else if (const auto code = errno_by_name(action)) {
        out.error = *code;
    } else {
        return bad("the action is an errno name, limit:COUNT, link_down, link_up, qp_error or device_fatal");
    }
    return out;
}

} // namespace

tl::expected<Pace, std::string> parse_pace(std::string_view text) {
    constexpr double kSlowestGBps = 1e-6, kLongestUs = 1e9; // what a clock of 64 bits can add up
    Pace pace;
    if (text.empty())
        return pace;
    pace.mode = Pace::Mode::real;
    if (text.starts_with("virtual:")) {
        pace.mode = Pace::Mode::virtual_clock;
        text.remove_prefix(8);
    }
    const auto done = split(text, ',', [&](std::string_view piece) -> tl::expected<void, std::string> {
        const size_t colon = piece.find(':');
        const auto value = colon == std::string_view::npos ? std::nullopt : number<double>(piece.substr(colon + 1));
        const std::string_view key = piece.substr(0, colon);
        if (!value || !std::isfinite(*value) || *value < 0)
            return Sentence(fmt::format("SOFTHCA_PACE: '{}': wants a name and a number, as in link:25", piece));
        if (key == "link") {
            if (*value < kSlowestGBps)
                return Sentence(fmt::format("SOFTHCA_PACE: '{}': a link needs at least {} GB/s", piece, kSlowestGBps));
            pace.ns_per_byte = 1 / *value; // 1 GB/s is one byte per nanosecond
        } else if (key == "latency") {
            if (*value > kLongestUs)
                return Sentence(fmt::format("SOFTHCA_PACE: '{}': may cost {} us at most", piece, kLongestUs));
            pace.latency_ns = static_cast<uint64_t>(*value * 1000);
        } else {
            return Sentence(fmt::format("SOFTHCA_PACE: '{}': knows link (GB/s) and latency (us)", key));
        }
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

tl::expected<Config, std::string> read_config() {
    Config config;
    if (const std::string_view devices = env("SOFTHCA_DEVICES"); !devices.empty()) {
        const auto count = number<unsigned>(devices);
        if (!count || *count > kMaxDevices)
            return Sentence(fmt::format("SOFTHCA_DEVICES={}: wants a number from 0 to {}", devices, kMaxDevices));
        config.devices = *count;
    }
    auto pace = parse_pace(env("SOFTHCA_PACE"));
    if (!pace)
        return Sentence(pace.error());
    config.pace = *pace;

    auto faults = parse_faults(env("SOFTHCA_FAULTS"));
    if (!faults)
        return Sentence(faults.error());
    config.faults = std::move(*faults);

    auto dir = choose_dir();
    if (!dir)
        return Sentence(dir.error());
    config.dir = std::move(*dir);
    const std::string_view gaudi = env("SOFTGAUDI_DIR");
    config.clock_dir = gaudi.empty() ? default_dir("softgaudi") : std::string(gaudi);
    return config;
}

} // namespace softhca
