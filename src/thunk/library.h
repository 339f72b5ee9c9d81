// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "error.h"
#include "functions.h"

#include <span>
#include <string>

namespace gaudi::thunk {

/// A loaded libhl-thunk. Unloading a vendor library under UCX is unsafe, so a Library belongs to the process: it is
/// handed out as a pointer that stays valid until exit, and loading the same file again gives the same one.
class Library {
public:
    /// Never nullptr on success. A library that lacks a required function is refused, and unloaded again.
    static Result<const Library *> load(const std::string &path);

    /// Loads what GAUDI_THUNK names, and nothing else, where it is set; otherwise libhl-thunk.so from the loader's
    /// search path or from the vendor's directory.
    static Result<const Library *> find();

    /// The first name that loads decides: if that library lacks a required function, the search fails.
    static Result<const Library *> find(std::span<const char *const> names);

    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;

    const Functions &call() const noexcept { return m_functions; }

    /// The file that the functions come from, for reports.
    const std::string &path() const noexcept { return m_path; }

    bool has_dmabuf() const noexcept { return m_functions.device_mapped_memory_export_dmabuf_fd != nullptr; }
    bool has_flush() const noexcept { return m_functions.cs_flush_pci_hbw_writes != nullptr; }
    bool has_version() const noexcept { return m_functions.get_version != nullptr && m_functions.free != nullptr; }
    bool has_notifier() const noexcept {
        return m_functions.notifier_create != nullptr && m_functions.notifier_release != nullptr &&
               m_functions.notifier_recv != nullptr;
    }

    /// The version that the library reports, e.g. "1.10.0-8636f13".
    Result<std::string> version() const;

    /// The error of a call to an optional function that this library lacks.
    Error lacks(const char *function) const;

private:
    Library(const void *handle, const Functions &functions, const Library *next);

    const void *m_handle; // only to recognise the same library again
    Functions m_functions;
    std::string m_path;
    const Library *m_next; // all loaded libraries form a list, which also keeps them reachable for leak checkers
};

} // namespace gaudi::thunk
