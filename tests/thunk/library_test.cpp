// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/library.h"

#include "fake_library.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace gaudi::thunk {
namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST(Library, full_library_has_every_function) {
    const Result<const Library *> library = Library::load(FAKE_FULL);
    ASSERT_TRUE(library) << library.error().text;
    const Functions &call = (*library)->call();
#define EXPECT_RESOLVED(name) EXPECT_NE(call.name, nullptr) << #name;
    GAUDI_THUNK_REQUIRED(EXPECT_RESOLVED)
    GAUDI_THUNK_OPTIONAL(EXPECT_RESOLVED)
#undef EXPECT_RESOLVED
}

TEST(Library, full_library_has_every_capability) {
    const FakeLibrary fake(FAKE_FULL);
    EXPECT_TRUE(fake->has_dmabuf());
    EXPECT_TRUE(fake->has_flush());
    EXPECT_TRUE(fake->has_version());
}

TEST(Library, missing_required_function_is_named) {
    const Result<const Library *> library = Library::load(FAKE_WITHOUT_WAIT);
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ENOSYS);
    EXPECT_STREQ(library.error().call, "dlsym");
    EXPECT_EQ(library.error().text,
              std::string(FAKE_WITHOUT_WAIT) + " cannot be used as libhl-thunk: it has no hlthunk_wait_for_cs");
    EXPECT_EQ(::dlopen(FAKE_WITHOUT_WAIT, RTLD_NOW | RTLD_NOLOAD), nullptr) << "it should be unloaded again";
}

TEST(Library, missing_optional_function_is_a_missing_capability) {
    const Result<const Library *> loaded = Library::load(FAKE_WITHOUT_OPTIONAL);
    ASSERT_TRUE(loaded) << loaded.error().text;
    const Library &library = **loaded;
#define EXPECT_ABSENT(name) EXPECT_EQ(library.call().name, nullptr) << #name;
    GAUDI_THUNK_OPTIONAL(EXPECT_ABSENT)
#undef EXPECT_ABSENT
    EXPECT_FALSE(library.has_dmabuf());
    EXPECT_FALSE(library.has_flush());
    EXPECT_FALSE(library.has_version());
    EXPECT_FALSE(library.has_notifier());
}

TEST(Library, one_of_two_functions_is_no_capability) {
    const FakeLibrary fake(FAKE_WITHOUT_FREE);
    EXPECT_NE(fake->call().get_version, nullptr);
    EXPECT_FALSE(fake->has_version());
}

TEST(Library, call_of_a_missing_function_names_it) {
    const FakeLibrary fake(FAKE_WITHOUT_OPTIONAL);
    const Device device = fake.device();
    EXPECT_TRUE(fails_with(device.export_dmabuf(4096, 4096), ENOSYS, "hlthunk_device_mapped_memory_export_dmabuf_fd"));
    EXPECT_TRUE(fails_with(device.flush_pci_writes(), ENOSYS, "hlthunk_cs_flush_pci_hbw_writes"));
    EXPECT_TRUE(fails_with(device.create_notifier(), ENOSYS, "hlthunk_notifier_create"));
    EXPECT_TRUE(fails_with(fake->version(), ENOSYS, "hlthunk_get_version"));
    EXPECT_TRUE(contains(device.flush_pci_writes().error().text, fake->path()));
}

TEST(Library, same_file_is_the_same_library) {
    const Result<const Library *> first = Library::load(FAKE_FULL);
    const Result<const Library *> second = Library::load(FAKE_FULL);
    const Result<const Library *> other = Library::load(FAKE_OPEN_STATS_18);
    ASSERT_TRUE(first && second && other);
    EXPECT_EQ(*first, *second);
    EXPECT_NE(*first, *other);
}

TEST(Library, loaded_library_stays_until_exit) {
    ASSERT_TRUE(Library::load(FAKE_OPEN_STATS_64));
    void *handle = ::dlopen(FAKE_OPEN_STATS_64, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(handle, nullptr);
    ::dlclose(handle);
}

TEST(Library, path_is_the_canonical_file) {
    const FakeLibrary fake(FAKE_FULL);
    EXPECT_EQ(fake->path(), std::filesystem::canonical(FAKE_FULL));
}

TEST(Library, path_behind_a_wrapper_is_the_file_with_the_functions) {
    const Result<const Library *> library = Library::load(FAKE_WRAPPER);
    ASSERT_TRUE(library) << library.error().text;
    EXPECT_EQ((*library)->path(), std::filesystem::canonical(FAKE_WRAPPED));
}

TEST(Library, version_is_that_of_the_library) {
    const FakeLibrary fake(FAKE_FULL);
    EXPECT_EQ(fake->version().value(), "9.8.7-fake");
    fake.reply("get_version", 0, ENOMEM);
    EXPECT_TRUE(fails_with(fake->version(), ENOMEM, "hlthunk_get_version"));
}

} // namespace
} // namespace gaudi::thunk
