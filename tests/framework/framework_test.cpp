// SPDX-License-Identifier: BSD-3-Clause
// Detection of SynapseAI in the process, and queries for its card and its memory, with each answer checked.
#include "synapse_fixture.h"

#include <fcntl.h>

#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

using FrameworkDescriptor = SynapseTest;
using FrameworkLookup = SynapseTest;
using FrameworkPool = SynapseTest;

TEST_F(FrameworkLookup, finds_none_and_loads_none) {
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(Synapse::loaded(), nullptr);
    EXPECT_FALSE(is_loaded("libSynapse.so"));
    EXPECT_FALSE(is_loaded("libscal.so"));
}

TEST_F(FrameworkLookup, library_loaded_later_is_found) {
    ASSERT_EQ(Synapse::loaded(), nullptr);
    ASSERT_NE(dlopen("libutil.so.1", RTLD_NOW), nullptr);
    ASSERT_EQ(Synapse::loaded(), nullptr) << "another library was loaded";
    load();
    const Synapse *found = Synapse::loaded();
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(Synapse::loaded(), found);
}

TEST_F(FrameworkLookup, threads_find_the_same_framework) {
    std::vector<const Synapse *> found(8);
    std::vector<std::thread> threads;
    for (const Synapse *&each : found)
        threads.emplace_back([&each] { until([&each] { return (each = Synapse::loaded()) != nullptr; }); });
    load();
    for (std::thread &thread : threads)
        thread.join();
    for (const Synapse *each : found)
        EXPECT_EQ(each, Synapse::loaded());
}

TEST_F(FrameworkLookup, found_library_stays_loaded) {
    load();
    const Synapse *found = Synapse::loaded();
    ASSERT_NE(found, nullptr);
    unload();
    EXPECT_TRUE(is_loaded("libSynapse.so"));
    EXPECT_EQ(found->descriptor(), -1);
}

TEST_F(FrameworkDescriptor, none_without_acquired_card) {
    load();
    const Synapse &framework = *Synapse::loaded();
    EXPECT_EQ(framework.descriptor(), -1) << "not initialized";
    initialize();
    EXPECT_EQ(framework.descriptor(), -1) << "not acquired";
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
}

TEST_F(FrameworkDescriptor, belongs_to_the_acquired_card) {
    const Synapse &framework = acquire(3);
    const int fd = framework.descriptor();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(value(device(fd).hw_ip()).module_id, 3u);
    const std::string bus_id = value(device(fd).bus_id());
    release();
    EXPECT_EQ(framework.descriptor(), -1) << "released";

    vendor::DeviceId id = 0;
    ASSERT_EQ(find_function<vendor::synDeviceAcquire>("synDeviceAcquire")(&id, bus_id.c_str()), vendor::synSuccess);
    EXPECT_EQ(value(device(framework.descriptor()).bus_id()), bus_id);
    release();
}

TEST_F(FrameworkDescriptor, none_after_an_error) {
    const Synapse &framework = acquire();
    set("STANDIN_FAULT", "synDeviceGetInfoV2:17");
    EXPECT_EQ(framework.descriptor(), -1);
}

TEST_F(FrameworkDescriptor, older_library_is_called_with_its_structure) {
    const Synapse &framework = acquire(2, STANDIN_OLD_SYNAPSE);
    EXPECT_EQ(framework.call().DeviceGetInfoV2, nullptr);
    EXPECT_EQ(value(device(framework.descriptor()).hw_ip()).module_id, 2u);
}

TEST_F(FrameworkDescriptor, none_in_a_structure_too_short_for_it) {
    const Synapse &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    set("STANDIN_SHORT_INFO", "1");
    EXPECT_EQ(framework.descriptor(), -1);
    unsetenv("STANDIN_SHORT_INFO");
    EXPECT_GE(framework.descriptor(), 0);
}

TEST_F(FrameworkPool, holds_all_allocations) {
    const Synapse &framework = acquire();
    const auto pools = framework.pools(framework.descriptor());
    ASSERT_EQ(pools.size(), 1u);
    EXPECT_GT(pools[0].begin, pools[0].mapping) << "the mapping starts with firmware memory";
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t address = allocate(100 * kMiB);
        EXPECT_GE(address, pools[0].begin);
        EXPECT_LE(address + 100 * kMiB, pools[0].begin + pools[0].size);
    }
    EXPECT_EQ(allocate(pools[0].size - 1000 * kMiB), pools[0].begin + 1000 * kMiB) << "the pool has no other memory";
}

TEST_F(FrameworkPool, exports_only_from_the_start_of_its_mapping) {
    const Synapse &framework = acquire();
    const int fd = framework.descriptor();
    const auto pool = framework.pools(fd).at(0);
    EXPECT_TRUE(device(fd).export_dmabuf(pool.mapping, pool.reach()));
    const thunk::Fd of_the_users_part(device(fd).library().call().device_mapped_memory_export_dmabuf_fd(
        fd, pool.mapping, pool.size, pool.begin - pool.mapping, O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(of_the_users_part);
    EXPECT_FALSE(device(fd).export_dmabuf(pool.begin, pool.size));
    EXPECT_FALSE(device(fd).export_dmabuf(pool.mapping, pool.reach() + kPage));
}

TEST_F(FrameworkPool, none_for_another_descriptor) {
    const Synapse &framework = acquire();
    EXPECT_TRUE(framework.pools(-1).empty());
    EXPECT_TRUE(framework.pools(0).empty());
}

TEST_F(FrameworkPool, none_after_an_error_of_any_step) {
    const Synapse &framework = acquire();
    const int fd = framework.descriptor();
    for (const char *fault :
         {"scal_get_handle_from_fd:-1", "scal_get_pool_handle_by_name:-11", "scal_pool_get_infoV2:-4",
          "scal_get_handle_from_fd:0", "scal_get_pool_handle_by_name:0", "scal_pool_get_infoV2:0"}) {
        set("STANDIN_FAULT", fault); // with status 0 the call reports success and returns nothing
        EXPECT_TRUE(framework.pools(fd).empty()) << fault;
    }
    unsetenv("STANDIN_FAULT");
    EXPECT_EQ(framework.pools(fd).size(), 1u);
}

TEST_F(FrameworkPool, none_without_scal) {
    const Synapse &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    ASSERT_GE(framework.descriptor(), 0);
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
    EXPECT_FALSE(is_loaded("libscal.so"));
}

TEST_F(FrameworkPool, none_from_a_scal_without_the_calls) {
    const Synapse &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    ASSERT_NE(dlopen(STANDIN_OLD_SCAL, RTLD_NOW | RTLD_LOCAL), nullptr);
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
}

} // namespace
