// SPDX-License-Identifier: BSD-3-Clause
// libgaudi-core.so.1 by its exported functions, called from libraries that pretend to be UCX.
#include "core/core.h"

#include "ucx/abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace gaudi::ucx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

void *open(const std::string &library) {
    void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char *error = handle == nullptr ? ::dlerror() : "";
    EXPECT_NE(handle, nullptr) << error;
    return handle;
}

struct Loaded {
    int status;
    std::string out;
    std::string err;
};

/// Calls the core as a module does that the code at `caller` has loaded.
Loaded load(const gaudi_module &module, void *caller) {
    const auto entry = reinterpret_cast<decltype(&gaudi_core_load)>(::dlsym(open(GAUDI_CORE), "gaudi_core_load"));
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = entry(&module, caller);
    return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

constexpr gaudi_module kUct = {GAUDI_CORE_INTERFACE, UCX_GAUDI_VERSION, "uct"};

std::string file(const std::string &library, const std::string &ucx) {
    return FAKE_UCX_DIRECTORY "/" + library + "-" + ucx + ".so";
}

void *fake(const std::string &ucx) {
    void *ucs = open(file("libucs", ucx));
    open(file("libuct", ucx));
    open(file("libucp", ucx));
    return ::dlsym(ucs, "ucs_log_dispatch");
}

TEST(Core, tested_ucx_is_served) {
    const Loaded loaded = load(kUct, fake(FAKE_UCX_TESTED));
    EXPECT_EQ(loaded.status, UCS_OK);
    EXPECT_THAT(loaded.out,
                HasSubstr("serves UCX 1.23.0 (" + file("libucs", FAKE_UCX_TESTED) + "), operation tables of 1.22.0"));
    EXPECT_THAT(loaded.out, Not(HasSubstr("newer")));
    EXPECT_EQ(loaded.err, "");
}

TEST(Core, newer_ucx_whose_abi_fits_is_served_and_logged) {
    const Loaded loaded = load(kUct, fake(FAKE_UCX_NEWER));
    EXPECT_EQ(loaded.status, UCS_OK);
    EXPECT_THAT(loaded.out, HasSubstr("4 UCX 1.24.0 (" + file("libucs", FAKE_UCX_NEWER) +
                                      ") is newer than 1.23, the newest UCX that "
                                      "ucx-gaudi is tested with; its ABI fits\n"));
    EXPECT_THAT(loaded.out, HasSubstr("serves UCX 1.24.0"));
}

TEST(Core, ucx_built_with_statistics_is_refused) {
    const Loaded loaded = load(kUct, fake(FAKE_UCX_STATISTICS));
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(loaded.out, "2 no Gaudi support: UCX 1.22.0 (" + file("libucs", FAKE_UCX_STATISTICS) +
                              ") cannot be used: its uct_base_iface has 1288 bytes, 1280 are needed (a build with "
                              "statistics has more); ucx-gaudi needs UCX 1.22 or later, built without statistics\n");
}

TEST(Core, newer_ucx_whose_tables_differ_is_refused) {
    const Loaded loaded = load(kUct, fake(FAKE_UCX_SHIFTED));
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_THAT(loaded.out, HasSubstr("its uct_md_mem_reg_v2 calls slot 6 of uct_md_ops, slot 5 is needed"));
}

TEST(Core, second_module_of_the_same_ucx_is_refused) {
    void *caller = fake(FAKE_UCX_TESTED);
    EXPECT_EQ(load(kUct, caller).status, UCS_OK);
    const Loaded again = load(kUct, caller);
    EXPECT_EQ(again.status, UCS_ERR_ALREADY_EXISTS);
    EXPECT_EQ(again.out, "5 the module is loaded already, under another name; this copy is not used\n");
}

TEST(Core, two_ucx_are_both_served) {
    EXPECT_EQ(load(kUct, fake(FAKE_UCX_TESTED)).status, UCS_OK);
    const Loaded newer = load(kUct, fake(FAKE_UCX_NEWER));
    EXPECT_EQ(newer.status, UCS_OK);
    EXPECT_THAT(newer.out, HasSubstr("serves UCX 1.24.0 (" + file("libucs", FAKE_UCX_NEWER)));
}

TEST(Core, ucx_without_its_libuct_is_refused) {
    const Loaded loaded = load(kUct, ::dlsym(open(file("libucs", FAKE_UCX_TESTED)), "ucs_log_dispatch"));
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_THAT(loaded.out, HasSubstr("the process has not loaded its libuct"));
}

TEST(Core, library_that_is_no_ucx_is_refused_on_stderr) {
    const Loaded loaded = load(kUct, ::dlsym(open(FAKE_UCS_WITHOUT_LOOKUP), "ucs_log_dispatch"));
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(loaded.err, "ucx-gaudi: no Gaudi support: the UCX of " FAKE_UCS_WITHOUT_LOOKUP
                          " cannot be used: its libucs has no ucs_memtype_cache_lookup; UCX 1.22 or later is needed\n");
}

TEST(Core, caller_in_no_library_is_refused) {
    int on_stack = 0;
    for (const char *framework : {"uct", "ucm", "ucx_perftest"})
        EXPECT_EQ(load({GAUDI_CORE_INTERFACE, UCX_GAUDI_VERSION, framework}, &on_stack).status, UCS_ERR_UNSUPPORTED)
            << framework;
}

TEST(Core, module_of_an_unknown_framework_is_refused) {
    const Loaded loaded = load({GAUDI_CORE_INTERFACE, UCX_GAUDI_VERSION, "later"}, fake(FAKE_UCX_TESTED));
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(loaded.out + loaded.err, "");
}

// The module of a test is in no file that is a module: the program stands for it.
std::string refusal_of(const gaudi_module &module) {
    return "no Gaudi support: " + fs::read_symlink("/proc/self/exe").string() + " (ucx-gaudi " + module.version +
           ", interface " + std::to_string(module.interface) +
           ") cannot use " GAUDI_CORE " (ucx-gaudi " UCX_GAUDI_VERSION
           ", interface 1), which this process loaded first; use the modules of one "
           "installation only\n";
}

constexpr gaudi_module kLaterUct = {2, "9.9.9", "uct"}, kLaterUcm = {2, "9.9.9", "ucm"};

TEST(Core, modules_of_another_interface_are_refused_with_one_warning) {
    void *caller = fake(FAKE_UCX_TESTED);
    const Loaded ucm = load(kLaterUcm, caller);
    EXPECT_EQ(ucm.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(ucm.out, "2 " + refusal_of(kLaterUcm));
    const Loaded uct = load(kLaterUct, caller);
    EXPECT_EQ(uct.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(uct.out + uct.err, "");
    EXPECT_EQ(load(kUct, caller).status, UCS_OK) << "the refused module has not taken its place";
}

TEST(Core, module_of_another_interface_is_refused_on_stderr_without_a_ucx) {
    int on_stack = 0;
    const Loaded loaded = load(kLaterUct, &on_stack);
    EXPECT_EQ(loaded.status, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(loaded.err, "ucx-gaudi: " + refusal_of(kLaterUct));
}

} // namespace
} // namespace gaudi::ucx
