// SPDX-License-Identifier: BSD-3-Clause
#include "record.h"

#include "child.h"
#include "environment.h"
#include "os/format.h"
#include "page_supply.h"
#include "places.h"
#include "record/calls.h"
#include "record/format.h"
#include "recording.h"
#include "report_file.h"
#include "thunk/fd.h"
#include "thunk/library.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// What a recording holds in the end.
struct RecordedTotals {
    std::uint64_t calls = 0;
    std::uint64_t processes = 0;
    std::uint64_t lost = 0; // calls and packets that found no room in the file
};

/// The file of a recording while programs write to it.
class OpenRecording {
public:
    static OrSentence<OpenRecording> create(const fs::path &path, std::uint64_t size);
    OpenRecording(OpenRecording &&other) noexcept
        : m_path(std::move(other.m_path)), m_fd(std::move(other.m_fd)), m_head(std::exchange(other.m_head, nullptr)) {}
    OpenRecording(const OpenRecording &) = delete;
    OpenRecording &operator=(const OpenRecording &) = delete;
    ~OpenRecording() {
        if (m_head)
            ::munmap(m_head, sizeof(record::Head));
    }

    int fd() const { return m_fd.get(); }
    const record::Head &head() const { return *m_head; }

    const fs::path &path() const { return m_path; }

    /// Ends the recording, also for programs that still run, and cuts the file to what is in it.
    OrSentence<RecordedTotals> close();

private:
    OpenRecording(fs::path path, thunk::Fd fd, record::Head *head)
        : m_path(std::move(path)), m_fd(std::move(fd)), m_head(head) {}

    fs::path m_path;
    thunk::Fd m_fd;
    record::Head *m_head;
};

std::string names_of_functions() {
    std::string names;
    for (const record::Call &call : record::kCalls)
        names.append(call.name).push_back('\0');
    return names;
}

/// Returns an errno. The room is checked first: an allocation that fails has filled the disk of everybody for a moment.
int allocate(int fd, std::uint64_t size) {
    struct statvfs room {};
    if (::fstatvfs(fd, &room) == 0 && room.f_bavail < size / room.f_frsize)
        return ENOSPC;
    return ::posix_fallocate(fd, 0, static_cast<off_t>(size));
}

OrSentence<OpenRecording> OpenRecording::create(const fs::path &path, std::uint64_t size) {
    const auto failed = [&](const char *what, int error) {
        return Sentence(os::format("cannot {} {}: {}", what, path.string(), std::strerror(error)));
    };
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        return Sentence(os::format("cannot write the recording to {}: it is not a regular file", path.string()));
    // Replaced, not truncated: a program that still writes to an older recording of this name would be killed.
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
        return failed("replace", errno);
    thunk::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd)
        return failed("create", errno);
    // Allocated at once: programs that write to a mapped file on a full disk are killed.
    if (const int error = allocate(fd.get(), size); error != 0) {
        ::unlink(path.c_str());
        return Sentence(os::format("cannot allocate {} MiB for {}: {}; choose a smaller --size", size >> 20,
                                   path.string(), std::strerror(error)));
    }
    const std::string names = names_of_functions();
    const std::size_t first = record::round_up(sizeof(record::Head) + names.size());
    if (::pwrite(fd.get(), names.data(), names.size(), sizeof(record::Head)) != static_cast<ssize_t>(names.size()))
        return failed("write", errno);
    void *mapped = ::mmap(nullptr, sizeof(record::Head), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED)
        return failed("map", errno);
    auto *head = new (mapped) record::Head{};
    std::memcpy(head->magic, record::kMagic, sizeof head->magic);
    head->version = record::kVersion;
    head->functions = record::kCallCount;
    head->first = first;
    head->limit = size;
    head->cursor = first;
    return OpenRecording(path, std::move(fd), head);
}

OrSentence<RecordedTotals> OpenRecording::close() {
    // A record that was reserved before this is below `end`; none is reserved after it.
    const std::uint64_t cursor = m_head->cursor.exchange(record::kClosedCursor);
    const std::uint64_t end = std::min(cursor, m_head->limit);
    m_head->end = end;
    const std::uint64_t lost = m_head->lost;
    if (::ftruncate(m_fd.get(), static_cast<off_t>(end)) != 0)
        return Sentence(os::format("cannot truncate {}: {}", m_path.string(), std::strerror(errno)));
    const auto recording = Recording::read(m_path);
    if (!recording)
        return Sentence(recording.error());
    return RecordedTotals{recording->calls().size(), recording->processes(), lost};
}

void print_totals(const OpenRecording &file, const RecordedTotals &totals) {
    if (totals.lost != 0)
        os::print(stderr,
                  "ucx_gaudi: the recording is cut: {} is full at {} MiB and lacks the last {} calls and packets; "
                  "choose a larger --size\n",
                  file.path().string(), file.head().limit >> 20, totals.lost);
    if (totals.calls == 0)
        os::print(stderr, "ucx_gaudi: no call was recorded: the program did not use libhl-thunk, or has the path of "
                          "another one built in\n");
    else
        os::print(stderr, "ucx_gaudi: recorded in {}: {} calls (processes: {})\n", file.path().string(), totals.calls,
                  totals.processes);
}

/// The report of `record --json` (docs/schema/record-1.json). `code` is the exit code of the program.
std::string describe_recording(const RecordOptions &options, int code, const thunk::Library &library,
                               const OpenRecording &file, const RecordedTotals &totals) {
    const std::string version = library.version().value_or("unknown");
    const nlohmann::ordered_json report = {
        {"schema", 1},
        {"software", version.find("softgaudi") != std::string::npos},
        {"library", library.path()},
        {"library_version", version},
        {"command", options.command},
        {"exit_code", code},
        {"file", file.path().string()},
        {"calls", totals.calls},
        {"processes", totals.processes},
        {"lost", totals.lost},
    };
    // A command may be any bytes.
    return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// The libhl-thunk that the program would use.
OrSentence<const thunk::Library *> find_recorded_library() {
    const auto library = thunk::Library::find();
    if (!library)
        return Sentence(os::format("there is nothing to record: {}; to record on softgaudi: ucx_gaudi run -- ucx_gaudi "
                                   "record -o FILE -- COMMAND",
                                   library.error().text));
    return *library;
}

OrSentence<OpenRecording> prepare(const RecordOptions &options, const thunk::Library &real) {
    const auto recorder = find_recorder_library();
    if (!recorder)
        return Sentence(recorder.error());
    std::error_code error;
    const fs::path path = fs::absolute(options.output, error);
    auto file = OpenRecording::create(path, options.size_mib << 20);
    if (!file)
        return file;
    Environment environment;
    environment.set(record::kFileVariable, path.string());
    environment.set(record::kThunkVariable, real.path());
    environment.set("GAUDI_THUNK", recorder->string());
    environment.prepend("LD_LIBRARY_PATH", recorder->parent_path().string());
    return file;
}

} // namespace

int run_record(const RecordOptions &options) {
    const auto refuse = [](const std::string &sentence) {
        os::print(stderr, "ucx_gaudi: {}\n", sentence);
        return 1;
    };
    if (const char *running = std::getenv(record::kFileVariable))
        return refuse(os::format("a recording to {} is running already, and there can be only one", running));
    std::optional<ReportFile> json;
    if (!options.json.empty()) { // before the program, which may run long
        auto opened = ReportFile::open(options.json);
        if (!opened)
            return refuse(opened.error());
        json = std::move(*opened);
    }
    const auto library = find_recorded_library();
    if (!library)
        return refuse(library.error());
    const HeldSignals signals;
    auto file = prepare(options, **library);
    if (!file)
        return refuse(file.error());
    std::optional<PageSupply> pages(std::in_place, file->fd(), file->head());
    const int code = run_child(options.command, signals);
    pages.reset(); // before the file is cut
    const auto totals = file->close();
    if (!totals) {
        refuse(totals.error());
        return code;
    }
    print_totals(*file, *totals);
    if (const auto written =
            json ? json->write(describe_recording(options, code, **library, *file, *totals)) : OrSentence<void>();
        !written) {
        refuse(written.error());
        return code != 0 ? code : 1;
    }
    return code;
}

} // namespace gaudi::cli
