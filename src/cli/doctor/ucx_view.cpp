// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_view.h"

#include "cli/probe_process.h"
#include "os/format.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace gaudi::cli::doctor {
namespace {

// The lines of an answer, by their first letter.
constexpr char kFailed = '!';   // the only line
constexpr char kAnswered = '='; // the first line otherwise
constexpr char kSetting = 'S';
constexpr char kDistance = 'D';

// UCX's types, which are the same in every version that has these functions.
using SystemDevice = std::uint8_t;
struct Distance {
    double latency_s, bandwidth_bytes_per_s;
};
using FindDevice = int(const char *bus_id, SystemDevice *device);
using GetDistance = int(SystemDevice first, SystemDevice second, Distance *distance);
using ReadConfig = int(const char *prefix, const char *file, void **config);
using PrintConfig = void(const void *config, std::FILE *stream, const char *title, int flags);

template <class Function>
Function *find(void *library, const char *name) {
    return reinterpret_cast<Function *>(::dlsym(library, name));
}

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
    return text;
}

/// MSG_NOSIGNAL: the other process may have crashed.
void send_all(int socket, const std::string &text) {
    for (std::size_t at = 0; at < text.size();) {
        const ssize_t sent = ::send(socket, text.data() + at, text.size() - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return;
        at += sent > 0 ? static_cast<std::size_t>(sent) : 0;
    }
}

/// Whether a setting decides which NICs a transfer uses.
bool chooses_nics(const std::string &name) {
    for (const char *one :
         {"UCX_NET_DEVICES", "UCX_TLS", "UCX_MAX_EAGER_RAILS", "UCX_MAX_EAGER_LANES", "UCX_MAX_RNDV_RAILS",
          "UCX_MAX_RNDV_LANES", "UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES", "UCX_MULTI_LANE_MAX_RATIO"})
        if (name == one)
            return true;
    return false;
}

std::string list_settings(void *library) {
    auto *read_config = find<ReadConfig>(library, "ucp_config_read");
    auto *print_config = find<PrintConfig>(library, "ucp_config_print");
    void *config = nullptr;
    if (!read_config || !print_config || read_config(nullptr, nullptr, &config) != 0)
        return {};
    char *text = nullptr;
    std::size_t size = 0;
    std::FILE *stream = ::open_memstream(&text, &size);
    if (!stream)
        return {};
    constexpr int kConfig = 1; // UCS_CONFIG_PRINT_CONFIG
    print_config(config, stream, nullptr, kConfig);
    std::fclose(stream);
    std::istringstream lines(std::string(text, size));
    std::string found;
    for (std::string line; std::getline(lines, line);)
        if (chooses_nics(line.substr(0, line.find('='))))
            found += os::format("{}{}\n", kSetting, line);
    std::free(text); // NOLINT: made by open_memstream
    return found;
}

std::string list_distances(FindDevice *find_device, GetDistance *get_distance, const std::string &pairs) {
    std::istringstream lines(pairs);
    std::ostringstream out;
    out.precision(17);
    for (std::string card, nic; lines >> card >> nic;) {
        SystemDevice first = 0, second = 0;
        Distance distance{};
        if (find_device(card.c_str(), &first) != 0 || find_device(nic.c_str(), &second) != 0 ||
            get_distance(first, second, &distance) != 0)
            continue;
        out << kDistance << ' ' << card << ' ' << nic << ' ' << distance.latency_s * 1e9 << ' '
            << (std::isfinite(distance.bandwidth_bytes_per_s) ? distance.bandwidth_bytes_per_s : -1) << '\n';
    }
    return out.str();
}

/// Runs in the child: loads UCX at once, and answers when the pairs have come.
void answer(const std::string &libucp, int socket) {
    // Warnings of UCX must not mix with the output.
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, stream);
    void *library = ::dlopen(libucp.c_str(), RTLD_LAZY | RTLD_LOCAL);
    const std::string error = library ? "" : ::dlerror();
    const std::string pairs = read_all(socket);
    if (!library) {
        send_all(socket, os::format("{}{}", kFailed, error));
        return;
    }
    auto *find_device = find<FindDevice>(library, "ucs_topo_find_device_by_bdf_name");
    auto *get_distance = find<GetDistance>(library, "ucs_topo_get_distance");
    if (!find_device || !get_distance) {
        send_all(socket,
                 os::format("{}it has no ucs_topo_find_device_by_bdf_name or no ucs_topo_get_distance", kFailed));
        return;
    }
    // One message, so that a crash on the way leaves no half of it.
    send_all(socket, os::format("{}\n{}{}", kAnswered, list_settings(library),
                                list_distances(find_device, get_distance, pairs)));
}

DistanceFacts parse_distance(std::istringstream line) {
    DistanceFacts distance;
    double latency = 0, bandwidth = -1;
    line >> distance.card >> distance.nic >> latency >> bandwidth;
    distance.latency_ns = latency > 0 && latency < 1e15 ? static_cast<std::uint64_t>(std::llround(latency)) : 0;
    constexpr double kUnlimited = 1e15; // UCX prints larger ones as unlimited, too
    if (bandwidth >= 0 && bandwidth < kUnlimited)
        distance.bandwidth_bytes_per_s = static_cast<std::uint64_t>(std::llround(bandwidth));
    return distance;
}

} // namespace

UcxView::UcxView(const std::string &libucp) {
    int ends[2];
    if (libucp.empty() || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    m_socket = thunk::Fd(ends[0]);
    const thunk::Fd child_end(ends[1]);
    const pid_t parent = ::getpid();
    m_child = ::fork();
    if (m_child == 0) {
        become_probe(parent);
        m_socket = thunk::Fd(); // else the child would wait for itself
        answer(libucp, child_end.get());
        ::_exit(0);
    }
}

UcxView::~UcxView() {
    m_socket = thunk::Fd(); // ends a child that was not asked
    reap();
}

void UcxView::ask(const std::vector<std::pair<std::string, std::string>> &pairs, UcxViewFacts &facts) {
    if (m_child < 0) {
        facts.why_unknown = "no process could be started to load it in";
        return;
    }
    std::string request;
    for (const auto &[card, nic] : pairs)
        request += os::format("{} {}\n", card, nic);
    send_all(m_socket.get(), request);
    ::shutdown(m_socket.get(), SHUT_WR);
    const std::string text = read_all(m_socket.get());
    reap();
    if (text.empty())
        facts.why_unknown = "the process that loads it has crashed";
    else if (text.front() == kFailed)
        facts.why_unknown = text.substr(1);
    else {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            const std::size_t equals = line.find('=');
            if (line.starts_with(kDistance))
                facts.distances.push_back(parse_distance(std::istringstream(line.substr(1))));
            else if (line.starts_with(kSetting) && equals != std::string::npos)
                facts.settings[line.substr(1, equals - 1)] = line.substr(equals + 1);
        }
        if (facts.distances.size() < pairs.size())
            facts.why_unknown = "it gives no distance of some devices";
    }
}

void UcxView::reap() {
    const pid_t child = std::exchange(m_child, -1);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace gaudi::cli::doctor
