// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "functions.h"
#include "thunk/error.h"

#include <atomic>
#include <optional>
#include <string>
#include <utility>

namespace gaudi::ucx {

using thunk::Error;
using thunk::Result;

struct Version {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
};

/// One UCX in this process: the functions and data of that very UCX, whatever its files are called and however many
/// other UCX the process has. UCX calls modules even after exit handlers have run, so a Host lives until the process
/// ends.
class Host {
public:
    /// The Host of the UCX whose libucs holds the code at `caller`; the same one for the same UCX.
    static Result<Host *> find(const void *caller);

    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    /// Finds the libuct of this UCX; until then the uct_* functions are nullptr. A UCX may load a module before its
    /// libuct, or without it.
    Result<void> find_uct();

    /// True for the first call: a UCX gets the component once, under however many names it finds the module.
    bool claim_uct() noexcept { return !m_uct_claimed.exchange(true); }
    bool claim_ucm() noexcept { return !m_ucm_claimed.exchange(true); }

    const Functions &call() const noexcept { return m_functions; }

    /// Nothing in a program that has not loaded libucp, which alone knows the version.
    std::optional<Version> version() const;

    /// "UCX 1.22.0 (/usr/lib/libucs.so.0)"
    std::string name() const;

    bool log_enabled(ucs_log_level_t level) const noexcept {
        return level <= m_functions.ucs_global_opts->log_component.log_level;
    }

    /// Writes to UCX's own log, with UCX's own filters. GAUDI_UCX_LOG of log.h fills in file, line and function.
    [[gnu::format(printf, 6, 7)]] void log(ucs_log_level_t level, const char *file, unsigned line, const char *function,
                                           const char *format, ...) const noexcept;

    // Parsers for rows of a configuration table. They are functions of this UCX, so tables are made when it loads us.
    ucs_config_parser string_parser() const noexcept;    // char *, which UCX frees
    ucs_config_parser uint_parser() const noexcept;      // unsigned
    ucs_config_parser ternary_parser() const noexcept;   // ucs_ternary_auto_value_t: yes, no, try
    ucs_config_parser memunits_parser() const noexcept;  // std::size_t; inf and auto are UCS_MEMUNITS_*
    ucs_config_parser time_parser() const noexcept;      // double, seconds
    ucs_config_parser bandwidth_parser() const noexcept; // double, bytes per second; auto is UCS_CONFIG_DBL_AUTO
    /// For an unsigned. `names` ends with nullptr and lives as long as the table.
    ucs_config_parser enum_parser(const char *const *names) const noexcept;
    /// For one value per key, at the offsets of the keys. `param` lives as long as the table.
    ucs_config_parser key_value_parser(const ucs_config_key_value_param *param) const noexcept;
    /// For the row that puts another table into this one.
    ucs_config_parser table_parser(const ucs_config_field *table) const noexcept;

    /// Zeroed memory for `count` elements of T, which UCX frees with ucs_free; nullptr when there is none.
    template <class T>
    T *allocate(std::size_t count, const char *what) const noexcept {
        return static_cast<T *>(m_functions.ucs_calloc(count, sizeof(T), what));
    }

private:
    Host(Host *next, void *ucs, const Functions &functions, std::string ucs_path)
        : m_next(next), m_ucs(ucs), m_functions(functions), m_ucs_path(std::move(ucs_path)) {}

    Host *m_next; // all Hosts form a list, which also keeps them reachable for leak checkers
    void *m_ucs;  // handle of libucs, never closed: it identifies this UCX
    Functions m_functions;
    std::string m_ucs_path;
    bool m_has_uct = false;
    std::atomic<bool> m_uct_claimed{false}, m_ucm_claimed{false};
};

} // namespace gaudi::ucx
