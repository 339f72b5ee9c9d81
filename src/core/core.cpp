// SPDX-License-Identifier: BSD-3-Clause
#include "core.h"

#include "os/format.h"
#include "perftest/allocator.h"
#include "thunk/current_exception.h"
#include "thunk/report.h"
#include "ucm/installer.h"
#include "uct/register.h"
#include "ucx/log.h"
#include "ucx/proof.h"
#include "ucx/status.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#define GAUDI_CORE_EXPORT __attribute__((visibility("default")))

namespace gaudi::core {
namespace {

using ucx::Error;
using ucx::Host;
using ucx::Result;
using ucx::ucs_status_t;

/// Logs one warning; UCX then continues without the module.
ucs_status_t refuse(const Host &host, const std::string &why) {
    GAUDI_UCX_LOG(host, WARN, "no Gaudi support: %s; ucx-gaudi needs UCX 1.22 or later, built without statistics",
                  why.c_str());
    return ucx::UCS_ERR_UNSUPPORTED;
}

/// The file that holds the code or data at `inside`.
std::string file_of(const void *inside) {
    Dl_info info{};
    return dladdr(inside, &info) != 0 ? info.dli_fname : "an unknown file";
}

std::string own_file() { return file_of(reinterpret_cast<const void *>(&gaudi_core_load)); }

/// Logs one warning for all modules of an installation.
ucs_status_t refuse(const gaudi_module &module, const void *caller) {
    static std::atomic<bool> s_warned{false};
    if (s_warned.exchange(true))
        return ucx::UCS_ERR_UNSUPPORTED;
    const std::string why = os::format(
        "no Gaudi support: {} (ucx-gaudi {}, interface {}) cannot use {} (ucx-gaudi {}, interface {}), which this "
        "process loaded first; use the modules of one installation only",
        file_of(&module), module.version, module.interface, own_file(), UCX_GAUDI_VERSION, GAUDI_CORE_INTERFACE);
    if (const Result<Host *> found = Host::find(caller); found)
        GAUDI_UCX_LOG(**found, WARN, "%s", why.c_str());
    else
        thunk::report({ENOTSUP, "gaudi_core_load", why});
    return ucx::UCS_ERR_UNSUPPORTED;
}

void log_other_version(const Host &host, const gaudi_module &module) {
    if (module.version != std::string_view(UCX_GAUDI_VERSION))
        GAUDI_UCX_LOG(host, INFO, "%s (ucx-gaudi %s) works on %s (ucx-gaudi %s), which this process loaded first",
                      file_of(&module).c_str(), module.version, own_file().c_str(), UCX_GAUDI_VERSION);
}

void log_served_ucx(const Host &host, ucx::Tables tables) {
    const std::optional<ucx::Version> version = host.version();
    if (version && ucx::is_newer_than_tested(*version))
        GAUDI_UCX_LOG(host, INFO, "%s is newer than %u.%u, the newest UCX that ucx-gaudi is tested with; its ABI fits",
                      host.name().c_str(), ucx::kNewestTested.major, ucx::kNewestTested.minor);
    GAUDI_UCX_LOG(host, DEBUG, "ucx-gaudi " UCX_GAUDI_VERSION " serves %s, operation tables of %s", host.name().c_str(),
                  ucx::tables_name(tables));
}

ucs_status_t load_uct(const gaudi_module &module, const void *caller) {
    const Result<Host *> found = Host::find(caller);
    if (!found) {
        // Without a Host there is no log of UCX's to write to, and the user must learn why the module does nothing.
        thunk::report({found.error().code, found.error().call,
                       os::format("no Gaudi support: {}; UCX 1.22 or later is needed", found.error().text)});
        return ucx::UCS_ERR_UNSUPPORTED;
    }
    Host &host = **found;
    if (!host.claim_uct()) {
        GAUDI_UCX_LOG(host, DEBUG, "the module is loaded already, under another name; this copy is not used");
        return ucx::UCS_ERR_ALREADY_EXISTS;
    }
    if (const Result<void> uct = host.find_uct(); !uct)
        return refuse(host, uct.error().text);
    const Result<ucx::Tables> tables = ucx::prove_tables(host.call());
    if (!tables)
        return refuse(host, os::format("{} cannot be used: {}", host.name(), tables.error().text));
    log_served_ucx(host, *tables);
    log_other_version(host, module);
    return uct::register_uct(host);
}

/// Silent about a UCX that cannot be used: loading the uct module has logged that.
ucs_status_t load_ucm(const gaudi_module &module, const void *caller) {
    const Result<Host *> found = Host::find(caller);
    if (!found)
        return ucx::UCS_ERR_UNSUPPORTED;
    if (!(*found)->claim_ucm())
        return ucx::UCS_ERR_ALREADY_EXISTS;
    return ucm::register_installer(**found, &module);
}

ucs_status_t load_perftest(const void *caller) {
    const Result<Host *> found = Host::find(caller);
    return found ? perftest::register_allocator(**found) : ucx::UCS_ERR_UNSUPPORTED;
}

ucs_status_t load(const gaudi_module &module, const void *caller) {
    if (module.interface != GAUDI_CORE_INTERFACE)
        return refuse(module, caller);
    const std::string_view framework = module.framework;
    if (framework == "uct")
        return load_uct(module, caller);
    if (framework == "ucm")
        return load_ucm(module, caller);
    return framework == "ucx_perftest" ? load_perftest(caller) : ucx::UCS_ERR_UNSUPPORTED;
}

} // namespace
} // namespace gaudi::core

GAUDI_CORE_EXPORT signed char gaudi_core_load(const gaudi_module *module, void *caller) {
    try {
        return gaudi::core::load(*module, caller);
    } catch (...) {
        const gaudi::thunk::Error error = gaudi::thunk::current_exception_error("gaudi_core_load");
        gaudi::thunk::report(error);
        return gaudi::ucx::status_from_errno(error.code);
    }
}

GAUDI_CORE_EXPORT unsigned gaudi_core_interface(const char **version) {
    *version = UCX_GAUDI_VERSION;
    return GAUDI_CORE_INTERFACE;
}
