// SPDX-License-Identifier: BSD-3-Clause
// Which descriptors are passed to libhl-thunk as nodes of a card: a newer one takes any other for the first card's.
#include "framework_program.h"

#include "gaudi/card/adoption.h"
#include "thunk/fake_library.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

using namespace gaudi;
using namespace gaudi::test;

namespace {

/// Descriptors of every kind of file that a program may have open.
class OtherFiles {
public:
    OtherFiles() {
        int pair[2];
        EXPECT_EQ(pipe(pair), 0);
        add(pair[0]), add(pair[1]);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        add(pair[0]), add(pair[1]);
        add(eventfd(0, 0));
        add(::open("/dev/null", O_RDWR));
        add(::open("/dev/zero", O_RDWR));
        add(memfd_create("node", 0));
        add(::open("/dev/shm", O_RDONLY | O_DIRECTORY));
        add(::open("/dev/shm", O_RDWR | O_TMPFILE, 0600));
        add(::open("/proc/self/status", O_RDONLY));
    }
    const std::vector<thunk::Fd> &all() const { return m_files; }

private:
    void add(int fd) {
        EXPECT_GE(fd, 0);
        m_files.emplace_back(fd);
    }
    std::vector<thunk::Fd> m_files;
};

/// A directory with the nodes of a card, as a library may offer them.
class Nodes {
public:
    Nodes() {
        char name[] = "/dev/shm/gaudi-nodes-XXXXXX";
        m_directory = mkdtemp(name);
    }
    ~Nodes() { std::filesystem::remove_all(m_directory); }

    thunk::Fd open(const char *name) const {
        return thunk::Fd(::open((m_directory + "/" + name).c_str(), O_RDWR | O_CREAT, 0600));
    }
    const std::string &directory() const { return m_directory; }

private:
    std::string m_directory;
};

class FakeCard {
public:
    FakeCard() : m_bus_id(value(fake.device().bus_id())), m_control(nodes.open("control")) {}

    CardIdentity identity(const std::string &bus_id) const {
        return CardIdentity(*fake, 0, 0, bus_id, {}, NodeProof(m_control.get()));
    }
    CardIdentity identity() const { return identity(m_bus_id); }

    const thunk::FakeLibrary fake{FAKE_FULL}; // takes each descriptor for the card's
    const Nodes nodes;

private:
    const std::string m_bus_id;
    const thunk::Fd m_control;
};

TEST(ComputeNode, descriptor_of_another_file_is_not_passed_to_the_library) {
    const FakeCard card;
    const CardIdentity identity = card.identity();
    const OtherFiles others;
    const int queries = card.fake.calls("get_pci_bus_id_from_fd");
    for (const thunk::Fd &other : others.all())
        EXPECT_FALSE(value(is_compute_node(identity, other.get()))) << other.get();
    EXPECT_FALSE(value(is_compute_node(identity, -1)));
    EXPECT_FALSE(value(is_compute_node(identity, 1000)));
    EXPECT_EQ(card.fake.calls("get_pci_bus_id_from_fd"), queries);
    EXPECT_EQ(card.fake.calls("wait_for_cs"), 0);
}

TEST(ComputeNode, node_of_another_card_is_never_called) {
    const FakeCard card;
    const thunk::Fd node = card.nodes.open("accel");
    const int queries = card.fake.calls("get_pci_bus_id_from_fd");
    EXPECT_FALSE(value(is_compute_node(card.identity("0000:ff:1f.7"), node.get()))) << "of another card";
    card.fake.reply("get_pci_bus_id_from_fd", -1, ENODEV);
    EXPECT_FALSE(value(is_compute_node(card.identity(), node.get()))) << "of no card";
    EXPECT_EQ(card.fake.calls("get_pci_bus_id_from_fd"), queries + 2);
    EXPECT_EQ(card.fake.calls("wait_for_cs"), 0);
    EXPECT_TRUE(value(is_compute_node(card.identity(), node.get())));
    EXPECT_EQ(card.fake.calls("wait_for_cs"), 1) << "the only call, on the card's own descriptor";
}

TEST(ComputeNode, descriptor_shortage_is_not_taken_for_none) {
    const FakeCard card;
    const CardIdentity identity = card.identity(), other = card.identity("0000:ff:1f.7");
    const thunk::Fd node = card.nodes.open("accel");
    EXPECT_GE(find_descriptor(identity).value_or(-1), 0);
    EXPECT_EQ(find_descriptor(other), -1);
    card.fake.reply("get_pci_bus_id_from_fd", -1, EMFILE);
    EXPECT_FALSE(find_descriptor(other));
}

TEST(ComputeNode, card_without_a_control_node_accepts_nothing) {
    const FakeCard card;
    const thunk::Fd node = card.nodes.open("accel");
    EXPECT_FALSE(value(NodeProof().accepts(node.get(), "0000:19:00.0")));
    EXPECT_FALSE(value(NodeProof(-1).accepts(node.get(), "0000:19:00.0")));
}

TEST(ComputeNode, character_device_is_accepted_by_its_sysfs_entry_alone) {
    const thunk::Fd null(::open("/dev/null", O_RDWR)), zero(::open("/dev/zero", O_RDWR));
    const NodeProof proof(null.get()); // the control node of a real card is a character device too
    EXPECT_FALSE(value(proof.accepts(zero.get(), "0000:19:00.0"))) << "in the same directory";
    EXPECT_FALSE(value(proof.accepts(FakeCard().nodes.open("accel").get(), "0000:19:00.0"))) << "no device";
}

class SysfsEntry : public ::testing::Test {
protected:
    std::string make(unsigned minor) const {
        const std::string entry = m_nodes.directory() + "/261:" + std::to_string(minor);
        std::filesystem::create_directories(entry);
        return entry;
    }
    Result<bool> names(unsigned minor, const std::string &bus_id = "0000:19:00.0") const {
        return sysfs_names_card(makedev(261, minor), bus_id, m_nodes.directory());
    }
    const Nodes m_nodes;
};

TEST_F(SysfsEntry, parent_device_names_the_card) {
    std::filesystem::create_symlink("../../../0000:19:00.0", make(0) + "/device");
    EXPECT_TRUE(value(names(0)));
    EXPECT_FALSE(value(names(0, "0000:1a:00.0")));
    EXPECT_FALSE(value(names(1))) << "no entry";
    make(2);
    EXPECT_FALSE(value(names(2))) << "an entry without a parent, as that of /dev/null";
}

TEST_F(SysfsEntry, attribute_of_older_drivers_names_the_card) {
    std::ofstream(make(0) + "/pci_addr") << "0000:19:00.0\n";
    EXPECT_TRUE(value(names(0)));
    EXPECT_FALSE(value(names(0, "0000:1a:00.0")));
    std::filesystem::create_directories(make(1) + "/device");
    std::ofstream(make(1) + "/device/pci_addr") << "0000:19:00.0\n";
    EXPECT_TRUE(value(names(1)));
}

/// On a libhl-thunk that takes any descriptor for the first card's.
class ThunkFallback : public GaudiTest {
protected:
    ThunkFallback() { set("SOFTGAUDI_QUIRKS", "fallback"); }
    static Card &first() { return *cards().by_bus_id("0000:19:00.0"); }
};

TEST_F(ThunkFallback, no_card_is_adopted_by_descriptors_of_other_files) {
    const OtherFiles others;
    EXPECT_EQ(first().find_session(), nullptr);
    EXPECT_EQ(find_descriptor(first()), -1);
    for (const thunk::Fd &other : others.all())
        EXPECT_EQ(value(cards().of_descriptor(other.get())), nullptr) << other.get();
    value(first().open());
    EXPECT_EQ(first().state(), Card::State::own) << "the driver was asked for it";
}

TEST_F(ThunkFallback, card_of_a_framework_is_adopted) {
    const OtherFiles others;
    const FrameworkProgram framework(first().bus_id());
    EXPECT_EQ(value(cards().of_descriptor(framework.fd())), &first());
    ASSERT_TRUE(first().find_session());
    EXPECT_TRUE(is_adopted(first()));
    const std::uint64_t address = value(allocate(first(), {.length = kMiB}));
    const HostBuffer host(kMiB);
    EXPECT_TRUE(is_ok(Mover(cards()).copy_now(address, host.address(), kMiB)));
}

} // namespace
