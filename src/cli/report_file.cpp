// SPDX-License-Identifier: BSD-3-Clause
#include "report_file.h"

#include "os/format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace gaudi::cli {
namespace {

bool write_all(int fd, const std::string &text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t got = ::write(fd, text.data() + done, text.size() - done);
        if (got < 0 && errno != EINTR)
            return false;
        done += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS; // a pipe or a device has no disk behind it
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

/// The program's own descriptor of the file, such as that of /dev/stdout; -1 if there is none. Opened anew, a redirected
/// output would be overwritten from its start.
int find_own_output(const struct stat &wanted) {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
        struct stat own {};
        if (::fstat(fd, &own) == 0 && own.st_dev == wanted.st_dev && own.st_ino == wanted.st_ino)
            return fd;
    }
    return -1;
}

} // namespace

Sentence ReportFile::describe_failure() const {
    return Sentence(os::format("cannot write {}: {}", m_path, std::strerror(errno)));
}

/// A new file beside the report, with a name that no other file has.
OrSentence<thunk::Fd> ReportFile::create(std::string &name) const {
    for (unsigned number = 0;; ++number) {
        name = os::format("{}.{}-{}", m_real_path, ::getpid(), number);
        thunk::Fd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (file)
            return file;
        if (errno != EEXIST)
            return describe_failure();
    }
}

OrSentence<ReportFile> ReportFile::open(const std::string &path) {
    ReportFile report(path);
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        if (const int own = find_own_output(status); own >= 0)
            report.m_stream = thunk::Fd(::fcntl(own, F_DUPFD_CLOEXEC, 0));
        else if (!S_ISREG(status.st_mode))
            report.m_stream = thunk::Fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
        else if (std::error_code error; ::access(path.c_str(), W_OK) == 0)
            report.m_real_path = std::filesystem::canonical(path, error).string();
        if (!report.m_stream && report.m_real_path.empty())
            return report.describe_failure();
        if (report.m_stream)
            return report;
    } else {
        report.m_real_path = follow_links(path);
    }
    std::string name; // created for a moment only: a program that is killed leaves none behind
    if (const auto created = report.create(name); !created)
        return Sentence(created.error());
    ::unlink(name.c_str());
    return report;
}

OrSentence<void> ReportFile::write(const std::string &text) const {
    if (m_stream)
        return write_all(m_stream.get(), text) ? OrSentence<void>() : describe_failure();
    std::string name;
    const auto file = create(name);
    if (!file)
        return Sentence(file.error());
    struct stat replaced {};
    bool written = true;
    if (::stat(m_real_path.c_str(), &replaced) == 0) {
        // The owner first, because that clears bits of the mode. Only root may give a file away.
        (void)!::fchown(file->get(), replaced.st_uid, replaced.st_gid);
        written = ::fchmod(file->get(), replaced.st_mode & 07777) == 0;
    }
    written = written && write_all(file->get(), text) && ::rename(name.c_str(), m_real_path.c_str()) == 0;
    if (written)
        return {};
    const bool busy = errno == EBUSY; // a container has it mounted: it can be written, but not replaced
    const Sentence failure = describe_failure();
    ::unlink(name.c_str());
    const thunk::Fd mounted(busy ? ::open(m_real_path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC) : -1);
    return mounted && write_all(mounted.get(), text) ? OrSentence<void>() : failure;
}

OrSentence<void> write_report(const std::string &path, const std::string &text) {
    const auto file = ReportFile::open(path);
    return file ? file->write(text) : OrSentence<void>(Sentence(file.error()));
}

} // namespace gaudi::cli
