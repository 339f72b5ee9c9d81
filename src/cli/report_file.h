// SPDX-License-Identifier: BSD-3-Clause
// A file that a command writes at the end of a long run: whether it can be written is known before the run begins.
#pragma once

#include "sentence.h"
#include "thunk/fd.h"

#include <string>

namespace gaudi::cli {

class ReportFile {
public:
    /// Fails where the file cannot be written. What is there already stays as it is.
    static OrSentence<ReportFile> open(const std::string &path);

    /// A regular file is replaced in one step, and keeps its mode and owner; a terminal, a pipe or the program's own output
    /// is written to.
    OrSentence<void> write(const std::string &text) const;

private:
    explicit ReportFile(std::string path) : m_path(std::move(path)) {}

    OrSentence<thunk::Fd> create(std::string &name) const;
    Sentence describe_failure() const;

    std::string m_path;      // as the user gave it
    std::string m_real_path; // behind symbolic links
    thunk::Fd m_stream;      // of what is no regular file
};

/// Writes a report that is there already.
OrSentence<void> write_report(const std::string &path, const std::string &text);

} // namespace gaudi::cli
