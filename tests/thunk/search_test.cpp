// SPDX-License-Identifier: BSD-3-Clause
// Runs with a fake libhl-thunk.so on the loader's search path.
#include "thunk/library.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace gaudi::thunk {
namespace {

std::string canonical(const char *path) { return std::filesystem::canonical(path); }

class LibrarySearch : public testing::Test {
protected:
    LibrarySearch() { ::unsetenv("GAUDI_THUNK"); }
};

TEST_F(LibrarySearch, unset_variable_finds_the_library_on_the_loaders_path) {
    const Result<const Library *> library = Library::find();
    ASSERT_TRUE(library) << library.error().text;
    EXPECT_EQ((*library)->path(), canonical(FAKE_ON_PATH));
}

TEST_F(LibrarySearch, variable_wins_over_the_loaders_path) {
    ::setenv("GAUDI_THUNK", FAKE_FULL, 1);
    const Result<const Library *> library = Library::find();
    ASSERT_TRUE(library) << library.error().text;
    EXPECT_EQ((*library)->path(), canonical(FAKE_FULL));
}

TEST_F(LibrarySearch, empty_variable_counts_as_unset) {
    ::setenv("GAUDI_THUNK", "", 1);
    const Result<const Library *> library = Library::find();
    ASSERT_TRUE(library) << library.error().text;
    EXPECT_EQ((*library)->path(), canonical(FAKE_ON_PATH));
}

TEST_F(LibrarySearch, variable_that_does_not_load_is_an_error) {
    ::setenv("GAUDI_THUNK", "there/is/no/such.so", 1);
    const Result<const Library *> library = Library::find();
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ELIBACC);
    EXPECT_EQ(library.error().text.rfind("GAUDI_THUNK=there/is/no/such.so: ", 0), 0U) << library.error().text;
}

TEST_F(LibrarySearch, variable_that_names_an_unusable_library_is_an_error) {
    ::setenv("GAUDI_THUNK", FAKE_WITHOUT_WAIT, 1);
    const Result<const Library *> library = Library::find();
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ENOSYS);
    EXPECT_NE(library.error().text.find("hlthunk_wait_for_cs"), std::string::npos);
}

TEST_F(LibrarySearch, name_that_does_not_load_is_skipped) {
    const char *const names[] = {"there/is/no/such.so", FAKE_FULL};
    const Result<const Library *> library = Library::find(names);
    ASSERT_TRUE(library) << library.error().text;
    EXPECT_EQ((*library)->path(), canonical(FAKE_FULL));
}

TEST_F(LibrarySearch, first_library_that_loads_decides) {
    const char *const names[] = {FAKE_WITHOUT_WAIT, FAKE_FULL};
    const Result<const Library *> library = Library::find(names);
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ENOSYS);
}

TEST_F(LibrarySearch, failure_names_every_file_that_was_tried) {
    const char *const names[] = {"first/such.so", "second/such.so"};
    const Result<const Library *> library = Library::find(names);
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ELIBACC);
    const std::string &text = library.error().text;
    EXPECT_EQ(text.rfind("no libhl-thunk was found: ", 0), 0U) << text;
    EXPECT_NE(text.find("first/such.so"), std::string::npos);
    EXPECT_NE(text.find("second/such.so"), std::string::npos);
}

} // namespace
} // namespace gaudi::thunk
