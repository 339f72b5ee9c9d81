// SPDX-License-Identifier: BSD-3-Clause
// SynapseAI in the process: noticed when it is loaded, asked for its card and its memory, and never believed blindly.
#include "synapse_program.h"

#include <fcntl.h>

#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class FrameworkTest : public SynapseTest {};

TEST_F(FrameworkTest, none_is_there_while_none_is_loaded_and_none_gets_loaded_by_asking) {
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(Framework::loaded(), nullptr);
    EXPECT_FALSE(is_loaded("libSynapse.so"));
    EXPECT_FALSE(is_loaded("libscal.so"));
}

TEST_F(FrameworkTest, one_that_is_loaded_later_is_noticed_and_stays_the_same) {
    ASSERT_EQ(Framework::loaded(), nullptr);
    ASSERT_NE(dlopen("libutil.so.1", RTLD_NOW), nullptr);
    ASSERT_EQ(Framework::loaded(), nullptr) << "another library is not it";
    load();
    const Framework *found = Framework::loaded();
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(Framework::loaded(), found);
}

TEST_F(FrameworkTest, threads_that_look_for_it_together_find_the_same) {
    std::vector<const Framework *> found(8);
    std::vector<std::thread> threads;
    for (const Framework *&mine : found)
        threads.emplace_back([&mine] { until([&mine] { return (mine = Framework::loaded()) != nullptr; }); });
    load();
    for (std::thread &thread : threads)
        thread.join();
    for (const Framework *one : found)
        EXPECT_EQ(one, Framework::loaded());
}

TEST_F(FrameworkTest, what_was_found_is_not_unloaded) {
    load();
    const Framework *found = Framework::loaded();
    ASSERT_NE(found, nullptr);
    unload();
    EXPECT_TRUE(is_loaded("libSynapse.so"));
    EXPECT_EQ(found->descriptor(), -1);
}

TEST_F(FrameworkTest, there_is_no_descriptor_without_a_card) {
    load();
    const Framework &framework = *Framework::loaded();
    EXPECT_EQ(framework.descriptor(), -1) << "not initialized";
    initialize();
    EXPECT_EQ(framework.descriptor(), -1) << "not acquired";
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
}

TEST_F(FrameworkTest, the_descriptor_is_that_of_the_acquired_card) {
    const Framework &framework = acquire(3);
    const int fd = framework.descriptor();
    ASSERT_GE(fd, 0);
    EXPECT_EQ(value(device(fd).hw_ip()).module_id, 3u);
    const std::string bus_id = value(device(fd).bus_id());
    release();
    EXPECT_EQ(framework.descriptor(), -1) << "given back";

    vendor::DeviceId id = 0;
    ASSERT_EQ(call<vendor::synDeviceAcquire>("synDeviceAcquire")(&id, bus_id.c_str()), vendor::synSuccess);
    EXPECT_EQ(value(device(framework.descriptor()).bus_id()), bus_id);
    release();
}

TEST_F(FrameworkTest, an_error_gives_no_descriptor) {
    const Framework &framework = acquire();
    set("STANDIN_FAULT", "synDeviceGetInfoV2:17");
    EXPECT_EQ(framework.descriptor(), -1);
}

TEST_F(FrameworkTest, an_older_library_is_asked_as_it_expects) {
    const Framework &framework = acquire(2, STANDIN_OLD_SYNAPSE);
    EXPECT_EQ(framework.call().DeviceGetInfoV2, nullptr);
    EXPECT_EQ(value(device(framework.descriptor()).hw_ip()).module_id, 2u);
}

TEST_F(FrameworkTest, a_structure_that_is_too_short_to_hold_a_descriptor_gives_none) {
    const Framework &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    set("STANDIN_SHORT_INFO", "1");
    EXPECT_EQ(framework.descriptor(), -1);
    unsetenv("STANDIN_SHORT_INFO");
    EXPECT_GE(framework.descriptor(), 0);
}

TEST_F(FrameworkTest, the_users_memory_is_in_the_pool) {
    const Framework &framework = acquire();
    const auto pools = framework.pools(framework.descriptor());
    ASSERT_EQ(pools.size(), 1u);
    EXPECT_GT(pools[0].begin, pools[0].mapping) << "the first part of the mapping is not the user's";
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t address = allocate(100 * kMiB);
        EXPECT_GE(address, pools[0].begin);
        EXPECT_LE(address + 100 * kMiB, pools[0].begin + pools[0].size);
    }
    EXPECT_EQ(allocate(pools[0].size - 1000 * kMiB), pools[0].begin + 1000 * kMiB) << "and the pool is all of it";
}

TEST_F(FrameworkTest, the_pool_can_be_exported_from_the_start_of_its_mapping_and_only_from_there) {
    const Framework &framework = acquire();
    const int fd = framework.descriptor();
    const auto pool = framework.pools(fd).at(0);
    EXPECT_TRUE(device(fd).export_dmabuf(pool.mapping, pool.reach()));
    const thunk::Fd of_the_users_part(device(fd).library().call().device_mapped_memory_export_dmabuf_fd(
        fd, pool.mapping, pool.size, pool.begin - pool.mapping, O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(of_the_users_part);
    EXPECT_FALSE(device(fd).export_dmabuf(pool.begin, pool.size));
    EXPECT_FALSE(device(fd).export_dmabuf(pool.mapping, pool.reach() + kPage));
}

TEST_F(FrameworkTest, nothing_is_known_about_the_memory_of_a_card_that_is_not_the_frameworks) {
    const Framework &framework = acquire();
    EXPECT_TRUE(framework.pools(-1).empty());
    EXPECT_TRUE(framework.pools(0).empty());
}

TEST_F(FrameworkTest, an_error_of_any_step_gives_no_pools) {
    const Framework &framework = acquire();
    const int fd = framework.descriptor();
    for (const char *fault :
         {"scal_get_handle_from_fd:-1", "scal_get_pool_handle_by_name:-11", "scal_pool_get_infoV2:-4",
          "scal_get_handle_from_fd:0", "scal_get_pool_handle_by_name:0", "scal_pool_get_infoV2:0"}) {
        set("STANDIN_FAULT", fault); // the latter three claim success and give nothing
        EXPECT_TRUE(framework.pools(fd).empty()) << fault;
    }
    unsetenv("STANDIN_FAULT");
    EXPECT_EQ(framework.pools(fd).size(), 1u);
}

TEST_F(FrameworkTest, without_scal_nothing_is_known_about_memory) {
    const Framework &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    ASSERT_GE(framework.descriptor(), 0);
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
    EXPECT_FALSE(is_loaded("libscal.so"));
}

TEST_F(FrameworkTest, a_scal_without_the_calls_gives_no_pools) {
    const Framework &framework = acquire(0, STANDIN_OLD_SYNAPSE);
    ASSERT_NE(dlopen(STANDIN_OLD_SCAL, RTLD_NOW | RTLD_LOCAL), nullptr);
    EXPECT_TRUE(framework.pools(framework.descriptor()).empty());
}

} // namespace
