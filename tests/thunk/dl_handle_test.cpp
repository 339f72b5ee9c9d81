// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/dl_handle.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cerrno>
#include <string>
#include <utility>

namespace gaudi::thunk {
namespace {

bool is_loaded(const char *path) {
    void *handle = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr)
        return false;
    ::dlclose(handle);
    return true;
}

TEST(DlHandle, destructor_unloads) {
    {
        const Result<DlHandle> library = DlHandle::open(FAKE_UNLOADABLE);
        ASSERT_TRUE(library);
        EXPECT_TRUE(is_loaded(FAKE_UNLOADABLE));
        EXPECT_NE(library->symbol("fake_marker"), nullptr);
        EXPECT_EQ(library->symbol("fake_no_such_marker"), nullptr);
        EXPECT_EQ(library->path(), FAKE_UNLOADABLE);
    }
    EXPECT_FALSE(is_loaded(FAKE_UNLOADABLE));
}

TEST(DlHandle, kept_library_stays_loaded) {
    Result<DlHandle> library = DlHandle::open(FAKE_KEPT);
    ASSERT_TRUE(library);
    library->keep();
    EXPECT_FALSE(*library);
    library = DlHandle();
    EXPECT_TRUE(is_loaded(FAKE_KEPT));
}

TEST(DlHandle, moved_handle_is_closed_by_its_new_owner) {
    Result<DlHandle> first = DlHandle::open(FAKE_UNLOADABLE);
    ASSERT_TRUE(first);
    DlHandle second;
    second = std::move(*first);
    EXPECT_FALSE(*first); // NOLINT: a moved-from handle is empty
    EXPECT_TRUE(is_loaded(FAKE_UNLOADABLE));
    EXPECT_TRUE(second.close());
    EXPECT_FALSE(is_loaded(FAKE_UNLOADABLE));
}

TEST(DlHandle, empty_handle_has_no_symbol_and_no_path) {
    const DlHandle none;
    EXPECT_EQ(none.symbol("malloc"), nullptr);
    EXPECT_EQ(none.path(), "");
}

TEST(DlHandle, failed_load_names_the_file) {
    const Result<DlHandle> library = DlHandle::open("libthere-is-no-such-thing.so");
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ELIBACC);
    EXPECT_NE(library.error().text.find("libthere-is-no-such-thing.so"), std::string::npos);
}

TEST(DlHandle, empty_name_is_refused) {
    const Result<DlHandle> library = DlHandle::open("");
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, EINVAL);
}

} // namespace
} // namespace gaudi::thunk
