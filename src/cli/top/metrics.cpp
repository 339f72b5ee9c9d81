// SPDX-License-Identifier: BSD-3-Clause
#include "cli/write_stdout.h"
#include "end_signal.h"
#include "http_server.h"
#include "os/format.h"
#include "snapshot_text.h"
#include "top.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

namespace gaudi::cli {
namespace {

/// The text; `told` has the sentences that the last call has printed or found printed, and they are not repeated.
OrSentence<std::string> make_text(bool json, std::set<std::string> &told) {
    const auto snapshot = take_counters();
    if (!snapshot)
        return Sentence(snapshot.error());
    if (!json)
        for (const std::string &sentence : snapshot->skipped)
            if (!told.contains(sentence))
                os::print(stderr, "ucx_gaudi: {}\n", sentence);
    told = {snapshot->skipped.begin(), snapshot->skipped.end()};
    return json ? top::format_json(*snapshot) : top::format_metrics(*snapshot);
}

bool write_all(int file, const std::string &text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = ::write(file, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        done += static_cast<std::size_t>(count);
    }
    return ::fsync(file) == 0 || errno == EINVAL;
}

/// The file that a symbolic link leads to, which may not exist yet; a path that is no link as it is.
std::string follow_links(std::string path) {
    namespace fs = std::filesystem;
    constexpr int kMostLinks = 40; // as the kernel's: more are a circle
    std::error_code error;
    for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links)
        path = (fs::path(path).parent_path() / fs::read_symlink(path, error)).string();
    return path;
}

/// A FIFO or a device stays what it is: a rename would put a file in its place.
OrSentence<void> write_in_place(const std::string &path, const std::string &text) {
    thunk::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!file || !write_all(file.get(), text) || !file.close())
        return Sentence(os::format("cannot write {}: {}", path, std::strerror(errno)));
    return {};
}

/// In one step: the textfile collector may read at any time. The other name does not end in .prom, so it never reads half.
OrSentence<void> write_file(const std::string &path, const std::string &text) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
        return write_in_place(path, text);
    const std::string target = follow_links(path);
    std::string other = target + ".XXXXXX";
    const auto refuse = [&] { return Sentence(os::format("cannot write {}: {}", path, std::strerror(errno))); };
    thunk::Fd file(::mkostemp(other.data(), O_CLOEXEC));
    if (!file)
        return refuse();
    // As readable as any new file: the collector runs as another user.
    const mode_t hidden = ::umask(0);
    ::umask(hidden);
    if (!write_all(file.get(), text) || ::fchmod(file.get(), 0666 & ~hidden) != 0 || !file.close() ||
        ::rename(other.c_str(), target.c_str()) != 0) {
        const auto refusal = refuse();
        ::unlink(other.c_str());
        return refusal;
    }
    return {};
}

OrSentence<void> serve(const std::string &where) {
    top::note_end_signals();
    auto server =
        top::HttpServer::listen(where, [told = std::set<std::string>()]() mutable { return make_text(false, told); });
    if (!server)
        return Sentence(server.error());
    os::print(stderr, "ucx_gaudi: serving http://{}/metrics\n", server->address());
    return server->serve();
}

} // namespace

int run_metrics(const MetricsOptions &options) {
    OrSentence<void> done;
    if (!options.listen.empty()) {
        constexpr int kUsage = 2;
        if (const std::string mistake = top::HttpServer::find_mistake(options.listen); !mistake.empty()) {
            os::print(stderr, "ucx_gaudi: {}\n", mistake);
            return kUsage;
        }
        done = serve(options.listen);
    } else {
        std::set<std::string> told;
        const auto text = make_text(options.json, told);
        if (text && options.output.empty())
            return write_stdout(*text) ? 0 : 1;
        done = text ? write_file(options.output, *text) : Sentence(text.error());
    }
    if (done)
        return 0;
    os::print(stderr, "ucx_gaudi: {}\n", done.error());
    return 1;
}

} // namespace gaudi::cli
